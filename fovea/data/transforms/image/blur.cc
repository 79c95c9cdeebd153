#include "fovea/data/transforms/image/blur.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

constexpr int kPasses = 3;

// A box of 2 * radius + 1 full pixels and a part of one more on either side. 24 fractional bits.
struct BoxWeights {
  int64_t radius;
  uint32_t full;
  uint32_t part;
};

// Pillow's float32, which decides the weights' last bit.
BoxWeights box_weights(double sigma) {
  const auto sigma32 = static_cast<float>(sigma);
  const float variance = sigma32 * sigma32 / kPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * static_cast<double>(variance) + 1.0));
  const auto whole = static_cast<float>(std::floor((static_cast<double>(length) - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  const float radius = whole + part;
  const auto full_pixels = static_cast<int64_t>(radius);
  const auto full = static_cast<uint32_t>(static_cast<float>(1 << 24) / (radius * 2 + 1));
  const auto rest = (1u << 24) - static_cast<uint32_t>(full_pixels * 2 + 1) * full;
  return {full_pixels, full, rest / 2};
}

// Sums of 2 * radius + 1 inputs are cheap to add anew for small boxes; `taps` holds the inputs of
// output element 0, from far left to far right: radius + 1 before, itself, radius + 1 after.
FOVEA_SIMD void box_sum(const uint8_t* const* taps, int64_t num_taps, uint32_t full, uint32_t part,
                        int64_t count, uint8_t* out) {
  const uint8_t *low = taps[0], *high = taps[num_taps - 1];
  if (num_taps == 3) {
    const uint8_t* here = taps[1];
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<uint8_t>(
          (here[i] * full + static_cast<uint32_t>(low[i] + high[i]) * part + (1u << 23)) >> 24);
    }
    return;
  }
  if (num_taps == 5) {
    const uint8_t *before = taps[1], *here = taps[2], *after = taps[3];
    for (int64_t i = 0; i < count; ++i) {
      const auto sum = static_cast<uint32_t>(before[i] + here[i] + after[i]);
      out[i] = static_cast<uint8_t>(
          (sum * full + static_cast<uint32_t>(low[i] + high[i]) * part + (1u << 23)) >> 24);
    }
    return;
  }
  constexpr int64_t kBlock = 64;
  uint32_t sums[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t last = std::min(count, first + kBlock);
    for (int64_t i = first; i < last; ++i) sums[i - first] = 0;
    for (int64_t k = 1; k + 1 < num_taps; ++k) {
      const uint8_t* tap = taps[k];
      for (int64_t i = first; i < last; ++i) sums[i - first] += tap[i];
    }
    for (int64_t i = first; i < last; ++i) {
      out[i] = static_cast<uint8_t>(
          (sums[i - first] * full + static_cast<uint32_t>(low[i] + high[i]) * part + (1u << 23)) >>
          24);
    }
  }
}

void box_rows(const ImageView& in, const BoxWeights& box, BlurScratch& scratch, Image& out) {
  const int64_t count = in.width * in.channels;
  const int64_t margin = (box.radius + 1) * in.channels;
  const int64_t num_taps = 2 * box.radius + 3;
  scratch.row.resize(static_cast<size_t>(count + 2 * margin));
  uint8_t* row = scratch.row.data();
  thread_local std::vector<const uint8_t*> taps;
  taps.resize(static_cast<size_t>(num_taps));
  for (int64_t k = 0; k < num_taps; ++k) taps[k] = row + k * in.channels;
  for (int64_t y = 0; y < in.height; ++y) {
    std::memcpy(row + margin, in.row(y), static_cast<size_t>(count));
    for (int64_t i = 0; i < margin; i += in.channels) {
      std::memcpy(row + i, in.row(y), static_cast<size_t>(in.channels));
      std::memcpy(row + margin + count + i, in.row(y) + count - in.channels,
                  static_cast<size_t>(in.channels));
    }
    box_sum(taps.data(), num_taps, box.full, box.part, count, out.pixels.data() + y * count);
  }
}

void box_columns(const ImageView& in, const BoxWeights& box, Image& out) {
  const int64_t count = in.width * in.channels;
  const int64_t num_taps = 2 * box.radius + 3;
  thread_local std::vector<const uint8_t*> taps;
  taps.resize(static_cast<size_t>(num_taps));
  for (int64_t y = 0; y < in.height; ++y) {
    for (int64_t k = 0; k < num_taps; ++k) {
      taps[k] = in.row(std::clamp<int64_t>(y + k - box.radius - 1, 0, in.height - 1));
    }
    box_sum(taps.data(), num_taps, box.full, box.part, count, out.pixels.data() + y * count);
  }
}

int64_t mirrored(int64_t at, int64_t count) {
  if (at < 0) at = -at;
  return at < count ? at : 2 * (count - 1) - at;
}

// exp(-x^2 / 2 sigma^2), summing to 1. Taps that float32 rounds to nothing beside the others are
// left out, an equal number on both sides.
void make_kernel(int64_t kernel_size, double sigma, std::vector<float>& kernel) {
  kernel.resize(static_cast<size_t>(kernel_size));
  const int64_t half = kernel_size / 2;
  float sum = 0;
  for (int64_t k = 0; k < kernel_size; ++k) {
    const float x = static_cast<float>(k - half) / static_cast<float>(sigma);
    kernel[k] = std::exp(-0.5f * x * x);
    sum += kernel[k];
  }
  for (float& weight : kernel) weight /= sum;
  constexpr float kNothing = 1e-7f;
  int64_t skipped = 0;
  while (skipped < half && kernel[skipped] < kNothing) ++skipped;
  kernel.erase(kernel.end() - skipped, kernel.end());
  kernel.erase(kernel.begin(), kernel.begin() + skipped);
}

// sums[i] = sum over k of kernel[k] * in[i + k * step].
FOVEA_SIMD void convolve_bytes(const uint8_t* in, const float* kernel, int64_t taps, int64_t step,
                               int64_t count, float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] = kernel[0] * static_cast<float>(in[i]);
  for (int64_t k = 1; k < taps; ++k) {
    const uint8_t* tap = in + k * step;
    const float weight = kernel[k];
    for (int64_t i = 0; i < count; ++i) sums[i] += weight * static_cast<float>(tap[i]);
  }
}

FOVEA_SIMD void add_scaled(const float* in, float weight, int64_t count, float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += weight * in[i];
}

// To the nearest, halves to even: adding 1.5 * 2^23 leaves no room for a fraction.
FOVEA_SIMD void round_to_bytes(const float* in, int64_t count, uint8_t* out) {
  constexpr float kNoFraction = 12582912.0f;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint8_t>(static_cast<int32_t>((in[i] + kNoFraction) - kNoFraction));
  }
}

}  // namespace

void gaussian_blur_pillow(const ImageView& in, double radius, Image& out, BlurScratch& scratch) {
  FOVEA_CHECK(radius >= 0, "a blur of {} pixels; expected 0 or more", radius);
  reshape(out, in.size(), in.channels);
  const BoxWeights box = box_weights(radius);
  if (radius == 0 || (box.radius == 0 && box.part == 0)) {
    for (int64_t y = 0; y < in.height; ++y) {
      std::memcpy(out.pixels.data() + y * in.width * in.channels, in.row(y),
                  static_cast<size_t>(in.width * in.channels));
    }
    return;
  }
  reshape(scratch.middle, in.size(), in.channels);
  // Six passes between two buffers end in `out`.
  box_rows(in, box, scratch, scratch.middle);
  box_rows(ImageView(scratch.middle), box, scratch, out);
  box_rows(ImageView(out), box, scratch, scratch.middle);
  box_columns(ImageView(scratch.middle), box, out);
  box_columns(ImageView(out), box, scratch.middle);
  box_columns(ImageView(scratch.middle), box, out);
}

void gaussian_blur_kernel(const ImageView& in, int64_t kernel_size, double sigma, Image& out,
                          BlurScratch& scratch) {
  FOVEA_CHECK(
      kernel_size > 0 && kernel_size % 2 == 1 && sigma > 0,
      "a blur with a kernel of {} pixels and sigma {}; expected an odd size and sigma above "
      "0",
      kernel_size, sigma);
  if (in.height <= kernel_size / 2 || in.width <= kernel_size / 2) {
    fail<DataError>(
        "an image of {}x{} pixels is too small for a blur with a kernel of {}; use a kernel of "
        "less "
        "than {}, or resize before",
        in.height, in.width, kernel_size, 2 * std::min(in.height, in.width));
  }
  make_kernel(kernel_size, sigma, scratch.kernel);
  const auto taps = static_cast<int64_t>(scratch.kernel.size());
  const int64_t half = taps / 2;
  const int64_t channels = in.channels;
  const int64_t count = in.width * channels;
  scratch.row.resize(static_cast<size_t>(count + 2 * half * channels));
  scratch.floats.resize(static_cast<size_t>(in.height * count));
  for (int64_t y = 0; y < in.height; ++y) {
    uint8_t* row = scratch.row.data();
    for (int64_t k = 0; k < half; ++k) {
      std::memcpy(row + k * channels, in.row(y) + mirrored(k - half, in.width) * channels,
                  static_cast<size_t>(channels));
      std::memcpy(row + (half + in.width + k) * channels,
                  in.row(y) + mirrored(in.width + k, in.width) * channels,
                  static_cast<size_t>(channels));
    }
    std::memcpy(row + half * channels, in.row(y), static_cast<size_t>(count));
    convolve_bytes(row, scratch.kernel.data(), taps, channels, count,
                   scratch.floats.data() + y * count);
  }
  reshape(out, in.size(), channels);
  scratch.sums.resize(static_cast<size_t>(count));
  for (int64_t y = 0; y < in.height; ++y) {
    std::fill(scratch.sums.begin(), scratch.sums.end(), 0.0f);
    for (int64_t k = 0; k < taps; ++k) {
      add_scaled(scratch.floats.data() + mirrored(y + k - half, in.height) * count,
                 scratch.kernel[k], count, scratch.sums.data());
    }
    round_to_bytes(scratch.sums.data(), count, out.pixels.data() + y * count);
  }
}

}  // namespace fovea::data
