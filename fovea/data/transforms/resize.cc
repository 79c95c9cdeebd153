#include "fovea/data/transforms/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// 32 bits less 8 for the pixel, less 2 for weights that overshoot: Pillow's choice, kept for equal
// bytes.
constexpr int kFractionBits = 32 - 8 - 2;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

// Keys 1981, a = -0.5, in the order of operations that Pillow uses.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

void compute_weights(int64_t in_size, int64_t out_size, Interpolation interpolation,
                     ResizeWeights& result) {
  const bool is_cubic = interpolation == Interpolation::kBicubic;
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  const double filter_scale = std::max(scale, 1.0);
  const double support = (is_cubic ? 2.0 : 1.0) * filter_scale;
  const double inverse_scale = 1.0 / filter_scale;
  result.taps = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  result.starts.resize(static_cast<size_t>(out_size));
  result.counts.resize(static_cast<size_t>(out_size));
  result.weights.resize(static_cast<size_t>(out_size * result.taps));
  result.exact.resize(static_cast<size_t>(result.taps));
  for (int64_t i = 0; i < out_size; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t last = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in_size);
    double sum = 0;
    for (int64_t k = 0; k < last - first; ++k) {
      const double x = (static_cast<double>(k + first) - center + 0.5) * inverse_scale;
      result.exact[k] = is_cubic ? cubic(x) : triangle(x);
      sum += result.exact[k];
    }
    for (int64_t k = 0; k < last - first; ++k) {
      const double weight = sum != 0.0 ? result.exact[k] / sum : result.exact[k];
      const double rounding = weight < 0 ? -0.5 : 0.5;
      result.weights[i * result.taps + k] =
          static_cast<int32_t>(rounding + weight * (1 << kFractionBits));
    }
    result.starts[i] = static_cast<int32_t>(first);
    result.counts[i] = static_cast<int32_t>(last - first);
  }
}

// Channels known at compile time, so that the sums of a pixel stay in registers.
template <int kChannels>
void horizontal_row(const uint8_t* in, const ResizeWeights& weights, uint8_t* out) {
  const auto out_width = static_cast<int64_t>(weights.starts.size());
  for (int64_t x = 0; x < out_width; ++x) {
    const uint8_t* pixel = in + int64_t{weights.starts[x]} * kChannels;
    const int32_t* weight = weights.weights.data() + x * weights.taps;
    int32_t sums[kChannels];
    std::fill_n(sums, kChannels, kHalf);
    for (int32_t k = 0; k < weights.counts[x]; ++k, pixel += kChannels) {
      for (int c = 0; c < kChannels; ++c) sums[c] += pixel[c] * weight[k];
    }
    for (int c = 0; c < kChannels; ++c) out[x * kChannels + c] = to_byte(sums[c]);
  }
}

void horizontal_row_any(const uint8_t* in, int64_t channels, const ResizeWeights& weights,
                        uint8_t* out) {
  const auto out_width = static_cast<int64_t>(weights.starts.size());
  for (int64_t x = 0; x < out_width; ++x) {
    for (int64_t c = 0; c < channels; ++c) {
      const uint8_t* pixel = in + weights.starts[x] * channels + c;
      int32_t sum = kHalf;
      for (int32_t k = 0; k < weights.counts[x]; ++k) {
        sum += pixel[k * channels] * weights.weights[x * weights.taps + k];
      }
      out[x * channels + c] = to_byte(sum);
    }
  }
}

// in [H, W, C] -> result [H, out W, C].
void horizontal_pass(const ImageView& in, const ResizeWeights& weights, Image& result) {
  uint8_t* out = result.pixels.data();
  const int64_t out_stride = result.width * in.channels;
  for (int64_t y = 0; y < in.height; ++y, out += out_stride) {
    if (in.channels == 3) {
      horizontal_row<3>(in.row(y), weights, out);
    } else if (in.channels == 1) {
      horizontal_row<1>(in.row(y), weights, out);
    } else {
      horizontal_row_any(in.row(y), in.channels, weights, out);
    }
  }
}

// in [H, W, C] -> result [out H, W, C].
void vertical_pass(const ImageView& in, const ResizeWeights& weights, std::vector<int32_t>& sums,
                   Image& result) {
  const int64_t row_bytes = in.width * in.channels;
  sums.resize(static_cast<size_t>(row_bytes));
  uint8_t* out = result.pixels.data();
  for (int64_t y = 0; y < result.height; ++y, out += row_bytes) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int32_t k = 0; k < weights.counts[y]; ++k) {
      const int32_t weight = weights.weights[y * weights.taps + k];
      const uint8_t* row = in.row(weights.starts[y] + k);
      int32_t* sum = sums.data();
      for (int64_t x = 0; x < row_bytes; ++x) sum[x] += row[x] * weight;
    }
    for (int64_t x = 0; x < row_bytes; ++x) out[x] = to_byte(sums[x]);
  }
}

// Rows are rounded to bytes between the passes, so their order shows in the last bit. Pillow 13.0
// starts vertically where the height loses more than twice the pixels that the width loses.
bool starts_vertically(ImageSize in, ImageSize out) {
  return out.height < in.height && in.height - out.height > 2 * (in.width - out.width);
}

void copy_rows(const ImageView& in, Image& out) {
  const auto row_bytes = static_cast<size_t>(in.width * in.channels);
  for (int64_t y = 0; y < in.height; ++y) {
    std::memcpy(out.pixels.data() + static_cast<size_t>(y) * row_bytes, in.row(y), row_bytes);
  }
}

void resize_nearest(const ImageView& in, ImageSize size, Image& out,
                    std::vector<int32_t>& positions) {
  // Positions add up step by step, as in Pillow: a product rounds differently.
  const double step_x = static_cast<double>(in.width) / static_cast<double>(size.width);
  const double step_y = static_cast<double>(in.height) / static_cast<double>(size.height);
  positions.resize(static_cast<size_t>(size.width));
  double x_in = step_x * 0.5;
  for (int32_t& position : positions) {
    position = static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(x_in), in.width - 1));
    x_in += step_x;
  }
  uint8_t* target = out.pixels.data();
  double y_in = step_y * 0.5;
  for (int64_t y = 0; y < size.height; ++y) {
    const uint8_t* row = in.row(std::min<int64_t>(static_cast<int64_t>(y_in), in.height - 1));
    for (const int32_t position : positions) {
      std::memcpy(target, row + position * in.channels, static_cast<size_t>(in.channels));
      target += in.channels;
    }
    y_in += step_y;
  }
}

}  // namespace

Interpolation interpolation_from_name(std::string_view name) {
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "bicubic") return Interpolation::kBicubic;
  fail<ConfigError>("interpolation={}; expected nearest, bilinear or bicubic", name);
}

void resize(const ImageView& in, ImageSize size, Interpolation interpolation, Image& out,
            ResizeScratch& scratch) {
  FOVEA_CHECK(in.height > 0 && in.width > 0 && size.height > 0 && size.width > 0,
              "resize from {}x{} to {}x{}; sizes must be above 0", in.height, in.width, size.height,
              size.width);
  reshape(out, size, in.channels);
  if (interpolation == Interpolation::kNearest) {
    resize_nearest(in, size, out, scratch.positions);
    return;
  }
  const bool has_horizontal = size.width != in.width;
  const bool has_vertical = size.height != in.height;
  if (has_horizontal) {
    compute_weights(in.width, size.width, interpolation, scratch.horizontal);
  }
  if (has_vertical) compute_weights(in.height, size.height, interpolation, scratch.vertical);
  if (has_horizontal && has_vertical) {
    const bool is_vertical_first = starts_vertically(in.size(), size);
    const ImageSize middle =
        is_vertical_first ? ImageSize{size.height, in.width} : ImageSize{in.height, size.width};
    reshape(scratch.middle, middle, in.channels);
    if (is_vertical_first) {
      vertical_pass(in, scratch.vertical, scratch.sums, scratch.middle);
      horizontal_pass(ImageView(scratch.middle), scratch.horizontal, out);
    } else {
      horizontal_pass(in, scratch.horizontal, scratch.middle);
      vertical_pass(ImageView(scratch.middle), scratch.vertical, scratch.sums, out);
    }
  } else if (has_horizontal) {
    horizontal_pass(in, scratch.horizontal, out);
  } else if (has_vertical) {
    vertical_pass(in, scratch.vertical, scratch.sums, out);
  } else {
    copy_rows(in, out);
  }
}

}  // namespace fovea::data
