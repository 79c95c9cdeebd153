#include "fovea/data/adaptive/resample_block.h"

#include <algorithm>
#include <type_traits>

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/data/adaptive/resample_block.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// D, H, W: sides of the leaf; P: width of the patch; C channels.
HWY_BEFORE_NAMESPACE();
namespace fovea::data::patching::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FullTag = hn::CappedTag<float, 16>;

template <class Tag>
hn::Vec<Tag> load_floats(Tag d, const float* from) {
  return hn::LoadU(d, from);
}
template <class Tag>
hn::Vec<Tag> load_floats(Tag d, const uint8_t* from) {
  const hn::Rebind<int32_t, Tag> wide;
  return hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(hn::Rebind<uint8_t, Tag>(), from)));
}

// The last step for every value: bytes have overshot and are clipped.
template <class T, class Tag>
hn::Vec<Tag> finish(Tag d, hn::Vec<Tag> value, float scale, float shift) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    value = hn::Min(hn::Max(value, hn::Zero(d)), hn::Set(d, 255.0f));
  }
  return hn::MulAdd(value, hn::Set(d, scale), hn::Set(d, shift));
}

// line [count * channels] interleaved -> out [C, count].
template <class T, class Tag>
void split_line(Tag d, const T* line, int64_t channels, int64_t count, float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (channels == 1) {
    for (int64_t x = 0; x < count; x += lanes) hn::StoreU(load_floats(d, line + x), d, out + x);
    return;
  }
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (channels == 3 && lanes > 1) {
      const hn::Rebind<uint8_t, Tag> narrow;
      const hn::Rebind<int32_t, Tag> wide;
      for (int64_t x = 0; x < count; x += lanes) {
        hn::Vec<decltype(narrow)> a, b, c;
        hn::LoadInterleaved3(narrow, line + 3 * x, a, b, c);
        hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(wide, a)), d, out + x);
        hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(wide, b)), d, out + count + x);
        hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(wide, c)), d, out + 2 * count + x);
      }
      return;
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t x = 0; x < count; ++x) {
      out[c * count + x] = static_cast<float>(line[x * channels + c]);
    }
  }
}

template <class T>
void widen_line(const T* line, int64_t count, float* out) {
  const FullTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t x = 0;
  for (; x + lanes <= count; x += lanes) hn::StoreU(load_floats(d, line + x), d, out + x);
  for (; x < count; ++x) out[x] = static_cast<float>(line[x]);
}

// One row of the leaf, made longer: line [W, C] -> out [C, P]. widened: W * C elements.
template <class T, class Tag>
void expand_line(Tag d, const T* line, int64_t channels, const AxisWeights& width, float* widened,
                 float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t count = width.out;
  if (width.is_identity()) {
    split_line(d, line, channels, count, out);
    return;
  }
  widen_line(line, width.in * channels, widened);
  const float* dense = width.dense.data();
  for (int64_t c = 0; c < channels; ++c, out += count) {
    int64_t x = 0;
    for (; x + 2 * lanes <= count; x += 2 * lanes) {
      auto first = hn::Zero(d);
      auto second = hn::Zero(d);
      for (int64_t k = 0; k < width.in; ++k) {
        const auto value = hn::Set(d, widened[k * channels + c]);
        first = hn::MulAdd(value, hn::LoadU(d, dense + k * count + x), first);
        second = hn::MulAdd(value, hn::LoadU(d, dense + k * count + x + lanes), second);
      }
      hn::StoreU(first, d, out + x);
      hn::StoreU(second, d, out + x + lanes);
    }
    for (; x < count; x += lanes) {
      auto sum = hn::Zero(d);
      for (int64_t k = 0; k < width.in; ++k) {
        sum = hn::MulAdd(hn::Set(d, widened[k * channels + c]), hn::LoadU(d, dense + k * count + x),
                         sum);
      }
      hn::StoreU(sum, d, out + x);
    }
  }
}

// Rows first: all rows of the leaf at the patch's width, then their weighted sums.
template <class T, class Tag>
void enlarge(Tag d, const Block<T>& block) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const AxisWeights &depth = *block.depth, &height = *block.height, &width = *block.width;
  const int64_t count = width.out;
  const int64_t row_size = block.channels * count;
  float* rows = block.buffer;  // [D, H, C, P]
  float* widened = rows + depth.in * height.in * row_size;
  for (int64_t z = 0; z < depth.in; ++z) {
    for (int64_t y = 0; y < height.in; ++y) {
      expand_line(d, block.in + z * block.in_slice + y * block.in_row, block.channels, width,
                  widened, rows + (z * height.in + y) * row_size);
    }
  }
  for (int64_t c = 0; c < block.channels; ++c) {
    for (int64_t k = 0; k < depth.out; ++k) {
      for (int64_t j = 0; j < height.out; ++j) {
        float* out = block.out + c * block.out_channel + k * block.out_slice + j * block.out_row;
        const float* first =
            rows + (depth.starts[k] * height.in + height.starts[j]) * row_size + c * count;
        const float* depth_weights = depth.weights.data() + k * depth.taps;
        const float* height_weights = height.weights.data() + j * height.taps;
        for (int64_t x = 0; x < count; x += lanes) {
          auto sum = hn::Zero(d);
          for (int64_t a = 0; a < depth.taps; ++a) {
            for (int64_t b = 0; b < height.taps; ++b) {
              const float weight = depth_weights[a] * height_weights[b];
              sum = hn::MulAdd(hn::Set(d, weight),
                               hn::LoadU(d, first + (a * height.in + b) * row_size + x), sum);
            }
          }
          hn::StoreU(finish<T>(d, sum, block.scale[c], block.shift[c]), d, out + x);
        }
      }
    }
  }
}

template <class T>
void add_line(const T* line, float weight, int64_t count, bool is_first, float* sums) {
  const FullTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, weight);
  int64_t x = 0;
  if (is_first) {
    for (; x + lanes <= count; x += lanes) {
      hn::StoreU(hn::Mul(load_floats(d, line + x), factor), d, sums + x);
    }
    for (; x < count; ++x) sums[x] = static_cast<float>(line[x]) * weight;
    return;
  }
  // One at a time by the vector's own operation: a value is the same wherever a line is cut.
  const hn::CappedTag<float, 1> one;
  for (; x + lanes <= count; x += lanes) {
    hn::StoreU(hn::MulAdd(load_floats(d, line + x), factor, hn::LoadU(d, sums + x)), d, sums + x);
  }
  for (; x < count; ++x) {
    const auto value = hn::Set(one, static_cast<float>(line[x]));
    hn::StoreU(hn::MulAdd(value, hn::Set(one, weight), hn::LoadU(one, sums + x)), one, sums + x);
  }
}

// sums [W, C] -> block.out, one row of each channel.
template <int Channels, class T>
void reduce_line(const Block<T>& block, const float* sums, float* out) {
  const AxisWeights& width = *block.width;
  const int64_t channels = Channels == 0 ? block.channels : Channels;
  const hn::CappedTag<float, 1> d;
  for (int64_t x = 0; x < width.out; ++x) {
    const float* weights = width.weights.data() + x * width.taps;
    const float* values = sums + width.starts[x] * channels;
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < width.taps; ++k) sum += weights[k] * values[k * channels + c];
      const auto value = finish<T>(d, hn::Set(d, sum), block.scale[c], block.shift[c]);
      out[c * block.out_channel + x] = hn::GetLane(value);
    }
  }
}

template <class T>
void reduce_channels(const Block<T>& block, const float* sums, float* out) {
  if (block.channels == 1) {
    reduce_line<1>(block, sums, out);
  } else if (block.channels == 3) {
    reduce_line<3>(block, sums, out);
  } else {
    reduce_line<0>(block, sums, out);
  }
}

// Columns first: each row of the patch is a sum of rows of the leaf, then made shorter.
template <class T>
void shrink(const Block<T>& block) {
  const AxisWeights &depth = *block.depth, &height = *block.height;
  const int64_t count = block.width->in * block.channels;
  float* sums = block.buffer;
  for (int64_t k = 0; k < depth.out; ++k) {
    for (int64_t j = 0; j < height.out; ++j) {
      bool is_first = true;
      for (int64_t a = 0; a < depth.taps; ++a) {
        for (int64_t b = 0; b < height.taps; ++b) {
          const float weight =
              depth.weights[k * depth.taps + a] * height.weights[j * height.taps + b];
          if (weight == 0 && !is_first) continue;
          const T* line = block.in + (depth.starts[k] + a) * block.in_slice +
                          (height.starts[j] + b) * block.in_row;
          add_line(line, weight, count, is_first, sums);
          is_first = false;
        }
      }
      reduce_channels(block, sums, block.out + k * block.out_slice + j * block.out_row);
    }
  }
}

// Vectors that divide the patch's width, so that nothing is written past a row.
template <class T>
void resample_any(const Block<T>& block) {
  const int64_t count = block.width->out;
  if (block.width->in > count) {
    shrink(block);
  } else if (count % static_cast<int64_t>(hn::Lanes(FullTag())) == 0) {
    enlarge(FullTag(), block);
  } else if (count % 4 == 0) {
    enlarge(hn::CappedTag<float, 4>(), block);
  } else {
    enlarge(hn::CappedTag<float, 1>(), block);
  }
}

void resample_bytes(const Block<uint8_t>& block) { resample_any(block); }
void resample_floats(const Block<float>& block) { resample_any(block); }

void add_line_bytes(const uint8_t* line, float weight, int64_t count, bool is_first, float* sums) {
  add_line(line, weight, count, is_first, sums);
}
void add_line_floats(const float* line, float weight, int64_t count, bool is_first, float* sums) {
  add_line(line, weight, count, is_first, sums);
}
void reduce_line_bytes(const Block<uint8_t>& block, const float* sums, float* out) {
  reduce_channels(block, sums, out);
}
void reduce_line_floats(const Block<float>& block, const float* sums, float* out) {
  reduce_channels(block, sums, out);
}

}  // namespace
}  // namespace fovea::data::patching::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::data::patching {

HWY_EXPORT(resample_bytes);
HWY_EXPORT(resample_floats);
HWY_EXPORT(add_line_bytes);
HWY_EXPORT(add_line_floats);
HWY_EXPORT(reduce_line_bytes);
HWY_EXPORT(reduce_line_floats);

int64_t block_buffer_size(int64_t rows, int64_t width, int64_t channels, int64_t out_width) {
  return std::max(rows * channels * out_width + width * channels, width * channels);
}

void resample_block(const Block<uint8_t>& block) { HWY_DYNAMIC_DISPATCH(resample_bytes)(block); }
void resample_block(const Block<float>& block) { HWY_DYNAMIC_DISPATCH(resample_floats)(block); }

void add_weighted_line(const uint8_t* line, float weight, int64_t count, bool is_first,
                       float* sums) {
  HWY_DYNAMIC_DISPATCH(add_line_bytes)(line, weight, count, is_first, sums);
}
void add_weighted_line(const float* line, float weight, int64_t count, bool is_first, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_line_floats)(line, weight, count, is_first, sums);
}
void reduce_weighted_line(const Block<uint8_t>& block, const float* sums, float* out) {
  HWY_DYNAMIC_DISPATCH(reduce_line_bytes)(block, sums, out);
}
void reduce_weighted_line(const Block<float>& block, const float* sums, float* out) {
  HWY_DYNAMIC_DISPATCH(reduce_line_floats)(block, sums, out);
}

}  // namespace fovea::data::patching
#endif
