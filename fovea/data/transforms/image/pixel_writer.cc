#include "fovea/data/transforms/image/pixel_writer.h"

#include <cstring>

#include "fovea/core/error.h"

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/data/transforms/image/pixel_writer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::data::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
using Bytes = hn::FixedTag<uint8_t, 16>;
using Floats = hn::CappedTag<float, 16>;

// a / divisor, correctly rounded where multiply and add are fused: a product with the reciprocal,
// corrected by its remainder (Markstein 1990).
template <class V>
HWY_INLINE V divide(V a, V divisor, V reciprocal) {
  const V quotient = hn::Mul(a, reciprocal);
  return hn::MulAdd(hn::NegMulAdd(quotient, divisor, a), reciprocal, quotient);
}

// Sixteen bytes of one channel.
HWY_INLINE void normalize_bytes(hn::Vec<Bytes> bytes, float mean, float std, float* out) {
  const Floats d;
  const hn::Rebind<int32_t, Floats> d32;
  const hn::Rebind<uint8_t, Floats> d8;
  alignas(16) uint8_t values[16];
  hn::Store(bytes, Bytes(), values);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < 16; i += lanes) {
    const auto value = hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, values + i)));
    const auto unit = divide(value, hn::Set(d, 255.0f), hn::Set(d, 1.0f / 255.0f));
    const auto centred = hn::Sub(unit, hn::Set(d, mean));
    hn::StoreU(divide(centred, hn::Set(d, std), hn::Set(d, 1.0f / std)), d, out + i);
  }
}

// The part of a row that sixteen-pixel steps cover; returns how many pixels that is.
int64_t normalize_row(const uint8_t* pixels, int64_t width, int64_t channels, const float* mean,
                      const float* std, float* out, int64_t plane) {
  const Bytes d;
  int64_t x = 0;
  for (; x + 16 <= width; x += 16, out += 16) {
    if (channels == 1) {
      normalize_bytes(hn::LoadU(d, pixels + x), mean[0], std[0], out);
      continue;
    }
    hn::Vec<Bytes> r, g, b;
    hn::LoadInterleaved3(d, pixels + 3 * x, r, g, b);
    normalize_bytes(r, mean[0], std[0], out);
    normalize_bytes(g, mean[1], std[1], out + plane);
    normalize_bytes(b, mean[2], std[2], out + 2 * plane);
  }
  return x;
}

// As normalize_row, for bytes.
int64_t separate_row(const uint8_t* pixels, int64_t width, uint8_t* out, int64_t plane) {
  const Bytes d;
  int64_t x = 0;
  for (; x + 16 <= width; x += 16, out += 16) {
    hn::Vec<Bytes> r, g, b;
    hn::LoadInterleaved3(d, pixels + 3 * x, r, g, b);
    hn::StoreU(r, d, out);
    hn::StoreU(g, d, out + plane);
    hn::StoreU(b, d, out + 2 * plane);
  }
  return x;
}
#else
int64_t normalize_row(const uint8_t*, int64_t, int64_t, const float*, const float*, float*,
                      int64_t) {
  return 0;
}

int64_t separate_row(const uint8_t*, int64_t, uint8_t*, int64_t) { return 0; }
#endif

}  // namespace
}  // namespace fovea::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::data {

HWY_EXPORT(normalize_row);
HWY_EXPORT(separate_row);

namespace {

float channel_value(const std::vector<double>& values, const char* key, int64_t channel,
                    int64_t channels) {
  if (values.size() == 1) return static_cast<float>(values[0]);
  if (static_cast<int64_t>(values.size()) == channels)
    return static_cast<float>(values[static_cast<size_t>(channel)]);
  fail<ConfigError>(
      "normalize.{} has {} values, but the model takes {} channel(s); give one value, or {}", key,
      values.size(), channels, channels);
}

}  // namespace

PixelWriter::PixelWriter(const NormalizeConfig& normalize, int64_t channels)
    : values_(static_cast<size_t>(channels)) {
  is_computed_ = channels == 1 || channels == 3;
  std::array<uint8_t, 256> bytes;
  for (int value = 0; value < 256; ++value) bytes[value] = static_cast<uint8_t>(value);
  for (int64_t c = 0; c < channels; ++c) {
    const float mean = channel_value(normalize.mean, "mean", c, channels);
    const float std = channel_value(normalize.std, "std", c, channels);
    mean_.push_back(mean);
    std_.push_back(std);
    auto& values = values_[c];
    for (int value = 0; value < 256; ++value) {
      values[value] = (static_cast<float>(value) / 255.0f - mean) / std;
    }
    // Division by way of the reciprocal is exact on most machines and for most values: all of them
    // are tried.
    std::array<float, 256> computed;
    const int64_t done =
        HWY_DYNAMIC_DISPATCH(normalize_row)(bytes.data(), 256, 1, &mean, &std, computed.data(), 0);
    is_computed_ = is_computed_ && done == 256 &&
                   std::memcmp(computed.data(), values.data(), sizeof computed) == 0;
  }
}

void PixelWriter::write_row(const uint8_t* pixels, int64_t y, ImageSize size,
                            PixelPlanes out) const {
  const int64_t plane = size.height * size.width;
  const int64_t channels = this->channels();
  int64_t done = 0;
  if (out.floats != nullptr) {
    float* target = out.floats + y * size.width;
    if (is_computed_) {
      done = HWY_DYNAMIC_DISPATCH(normalize_row)(pixels, size.width, channels, mean_.data(),
                                                 std_.data(), target, plane);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const auto& values = values_[c];
      for (int64_t x = done; x < size.width; ++x)
        target[c * plane + x] = values[pixels[x * channels + c]];
    }
    return;
  }
  uint8_t* target = out.bytes + y * size.width;
  if (channels == 3) done = HWY_DYNAMIC_DISPATCH(separate_row)(pixels, size.width, target, plane);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t x = done; x < size.width; ++x) target[c * plane + x] = pixels[x * channels + c];
  }
}

}  // namespace fovea::data
#endif
