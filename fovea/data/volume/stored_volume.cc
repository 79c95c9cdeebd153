#include "fovea/data/volume/stored_volume.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/files/byte_reader.h"

namespace fovea::data {
namespace {

constexpr int32_t kNotWhole = std::numeric_limits<int32_t>::min();

// The axis besides W whose neighbours lie closest together in the file.
size_t closest_axis(const StoredVolume& stored, const std::array<int64_t, 4>& sizes) {
  size_t best = 1;
  for (const size_t axis : {size_t{0}, size_t{2}}) {
    const bool best_counts = sizes[best] > 1, counts = sizes[axis] > 1;
    if (counts && (!best_counts || std::abs(stored.strides[axis]) < std::abs(stored.strides[best])))
      best = axis;
  }
  return best;
}

// `count` numbers, `stride` elements apart, to neighbours in `out`. The common stride of 1 stands
// by itself so that the compiler makes vector code of it.
template <class T, class Out, class F>
void convert_row(const uint8_t* in, int64_t stride, std::endian order, int64_t count, Out* out,
                 F&& convert) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  if (stride == 1 && order == std::endian::native) {
    for (int64_t i = 0; i < count; ++i)
      out[i] = convert(load_number<T>(in + i * kBytes, std::endian::native));
  } else {
    for (int64_t i = 0; i < count; ++i)
      out[i] = convert(load_number<T>(in + i * stride * kBytes, order));
  }
}

constexpr int64_t kFastBlock = 64, kWBlock = 16;

// A block of `fast` x `w` numbers through a tile in the first cache: a NIfTI file is fastest along
// D, so that either the reads or the writes would else touch another page with every number.
template <class T, class Out, class F>
void convert_block(const StoredVolume& stored, const uint8_t* in, int64_t in_fast, int64_t fast,
                   int64_t w, Out* out, int64_t out_fast, F&& convert) {
  std::array<Out, kFastBlock * kWBlock> tile;
  for (int64_t i = 0; i < w; ++i) {
    const auto* row = in + i * stored.strides[3] * static_cast<int64_t>(sizeof(T));
    convert_row<T>(row, in_fast, stored.order, fast, tile.data() + i * kFastBlock, convert);
  }
  for (int64_t f = 0; f < fast; ++f) {
    for (int64_t i = 0; i < w; ++i) out[f * out_fast + i] = tile[i * kFastBlock + f];
  }
}

// Walks [C, D, H, W]: rows along W where they lie closest together in the file, else blocks of W
// and of the axis that does.
template <class T, class Out, class F>
void walk(const StoredVolume& stored, Out* out, F&& convert) {
  const std::array<int64_t, 4> sizes = stored.sides();
  const auto out_strides = row_major_strides(sizes);
  const auto& in_strides = stored.strides;
  const size_t fast = closest_axis(stored, sizes);
  const size_t outer = fast == 0 ? 1 : 0, inner = fast == 2 ? 1 : 2;  // the two that are left
  const bool is_blocked = std::abs(in_strides[3]) > std::abs(in_strides[fast]);
  const int64_t fast_block = is_blocked ? kFastBlock : 1;
  const int64_t w_block = is_blocked ? kWBlock : sizes[3];
  const auto at = [&](int64_t element) {
    return stored.bytes.data() + element * static_cast<int64_t>(sizeof(T));
  };
  for (int64_t a = 0; a < sizes[outer]; ++a) {
    for (int64_t b = 0; b < sizes[inner]; ++b) {
      const int64_t in_row = stored.first + a * in_strides[outer] + b * in_strides[inner];
      Out* out_row = out + a * out_strides[outer] + b * out_strides[inner];
      for (int64_t f = 0; f < sizes[fast]; f += fast_block) {
        const int64_t in_start = in_row + f * in_strides[fast];
        Out* out_start = out_row + f * out_strides[fast];
        if (!is_blocked) {
          convert_row<T>(at(in_start), in_strides[3], stored.order, sizes[3], out_start, convert);
          continue;
        }
        for (int64_t w = 0; w < sizes[3]; w += w_block) {
          convert_block<T>(stored, at(in_start + w * in_strides[3]), in_strides[fast],
                           std::min(fast_block, sizes[fast] - f), std::min(w_block, sizes[3] - w),
                           out_start + w, out_strides[fast], convert);
        }
      }
    }
  }
}

template <class Out, class F>
void walk_any(const StoredVolume& stored, Out* out, F&& convert) {
  with_scalar(stored.type, [&](auto number) { walk<decltype(number)>(stored, out, convert); });
}

// Every element that a walk touches lies within the bytes: readers see to it, this holds it.
void check_reach(const StoredVolume& stored) {
  int64_t lowest = stored.first, highest = stored.first;
  const std::array<int64_t, 4> sizes = stored.sides();
  FOVEA_CHECK(checked_voxels(sizes) > 0, "{}: sizes {} x {} x {} x {}", stored.source, sizes[0],
              sizes[1], sizes[2], sizes[3]);
  for (size_t axis = 0; axis < 4; ++axis) {
    const int64_t reach = (sizes[axis] - 1) * stored.strides[axis];
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto held = static_cast<int64_t>(stored.bytes.size()) / bytes_of(stored.type);
  FOVEA_CHECK(lowest >= 0 && highest < held, "{}: elements {} to {} of {}", stored.source, lowest,
              highest, held);
}

bool is_finite(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7F800000u) != 0x7F800000u;
}

// "[0, 3, 1, 2] (channel, D, H, W)"
std::string position_of(int64_t index, const StoredVolume& stored) {
  const auto& size = stored.size;
  const auto& origin = stored.origin;
  return fmt::format("[{}, {}, {}, {}] (channel, D, H, W)", index / size.voxels(),
                     index / (size.height * size.width) % size.depth + origin[0],
                     index / size.width % size.height + origin[1], index % size.width + origin[2]);
}

}  // namespace

void narrow(StoredVolume& stored, const VolumeRegion& region) {
  check_inside(region, stored.size, stored.source);
  for (size_t axis = 0; axis < 3; ++axis) {
    stored.first += region.start[axis] * stored.strides[axis + 1];
    stored.origin[axis] += region.start[axis];
  }
  stored.size = region.size;
}

void check_inside(const VolumeRegion& region, const VolumeSize& whole, const std::string& source) {
  const auto sides = region.size.sides(), most = whole.sides();
  for (size_t axis = 0; axis < 3; ++axis) {
    FOVEA_CHECK(region.start[axis] >= 0 && sides[axis] > 0 &&
                    region.start[axis] <= most[axis] - sides[axis],
                "{}: {} voxels from {} on along axis {} of {}", source, sides[axis],
                region.start[axis], axis, most[axis]);
  }
}

int64_t checked_voxels(std::span<const int64_t> sizes, int64_t most) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size < 1 || __builtin_mul_overflow(product, size, &product) || product > most) return -1;
  }
  return product;
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

void convert_values(const StoredVolume& stored, float* out) {
  check_reach(stored);
  const double slope = stored.slope, intercept = stored.intercept;
  if (slope == 1 && intercept == 0) {
    walk_any(stored, out,
             [](auto value) { return static_cast<float>(static_cast<double>(value)); });
  } else {
    walk_any(stored, out, [=](auto value) {
      return static_cast<float>(static_cast<double>(value) * slope + intercept);
    });
  }
  int64_t broken = 0;
  for (int64_t i = 0; i < stored.values(); ++i) broken += is_finite(out[i]) ? 0 : 1;
  if (broken == 0) return;
  const auto* first =
      std::find_if_not(out, out + stored.values(), [](float value) { return is_finite(value); });
  fail<DataError>(
      "{}: {} of {} values are {}, the first at {}; expected finite values: replace them in the "
      "file",
      stored.source, broken, stored.values(),
      std::isnan(*first) ? "NaN or infinite" : "infinite or too large for float32",
      position_of(first - out, stored));
}

void convert_volume(const StoredVolume& stored, Volume& volume) {
  volume.channels = stored.channels;
  volume.size = stored.size;
  volume.spacing = stored.spacing;
  volume.values.resize(static_cast<size_t>(stored.values()));
  convert_values(stored, volume.values.data());
}

void convert_labels(const StoredVolume& stored, const LabelRule& rule, LabelMap& mask) {
  check_reach(stored);
  if (stored.channels != 1) {
    fail<DataError>("{}: a mask with {} channels; expected one number for each voxel",
                    stored.source, stored.channels);
  }
  mask.size = stored.size;
  mask.classes.resize(static_cast<size_t>(stored.values()));
  const double slope = stored.slope, intercept = stored.intercept;
  walk_any(stored, mask.classes.data(), [=](auto value) {
    const double number = static_cast<double>(value) * slope + intercept;
    const bool is_whole = std::fabs(number) < 0x1p31 && number == std::floor(number);
    return is_whole ? static_cast<int32_t>(number) : kNotWhole;
  });
  for (size_t i = 0; i < mask.classes.size(); ++i) {
    const int64_t number = mask.classes[i], label = number - rule.offset;
    const bool is_class = label >= 0 && label < rule.num_classes;
    if (is_class && rule.ignore_values.empty()) {
      mask.classes[i] = static_cast<int32_t>(label);
      continue;
    }
    const bool is_ignored = std::find(rule.ignore_values.begin(), rule.ignore_values.end(),
                                      number) != rule.ignore_values.end();
    if (!is_ignored && !is_class) {
      fail<DataError>(
          "{}: {} at {}; expected whole numbers from {} to {}; correct num_classes or "
          "label_offset, or list the number in ignore_values",
          stored.source,
          number == kNotWhole ? "a number that is not whole, or is too large"
                              : fmt::format("the number {}", number),
          position_of(static_cast<int64_t>(i), stored), rule.offset,
          rule.offset + rule.num_classes - 1);
    }
    mask.classes[i] = is_ignored ? -1 : static_cast<int32_t>(label);
  }
}

ValueRange range_of(const Volume& volume) {
  if (volume.values.empty()) return {};
  const auto [low, high] = std::minmax_element(volume.values.begin(), volume.values.end());
  return {*low, *high};
}

void scale_to_unit_range(const ValueRange& range, Volume& volume) {
  const float width = range.high - range.low;
  for (float& value : volume.values) value = width > 0 ? (value - range.low) / width : 0.0F;
}

}  // namespace fovea::data
