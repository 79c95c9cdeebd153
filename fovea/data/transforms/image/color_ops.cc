// Compiled without contraction of products and sums into one rounding (-ffp-contract=off): Pillow
// rounds twice, and cuts fractions off.
#include "fovea/data/transforms/image/color_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"
#include "fovea/data/image/gray_and_colour.h"

namespace fovea::data {
namespace {

constexpr int kValues = 256;
using Histogram = std::array<int64_t, kValues>;

void check_channels(const ImageView& in, const char* what) {
  if (in.channels == 1 || in.channels == 3) return;
  fail<DataError>("{} of an image with {} channels; expected 1 or 3", what, in.channels);
}

template <class F>
void for_each_row(const ImageView& in, Image& out, F&& f) {
  reshape(out, in.size(), in.channels);
  uint8_t* target = out.pixels.data();
  for (int64_t y = 0; y < in.height; ++y, target += in.width * in.channels) f(y, target);
}

Histogram histogram_of(const ImageView& in, int64_t channel) {
  // Four counters, so that a run of equal bytes does not wait for itself.
  std::array<std::array<uint32_t, kValues>, 4> counts{};
  for (int64_t y = 0; y < in.height; ++y) {
    const uint8_t* value = in.row(y) + channel;
    int64_t x = 0;
    for (; x + 4 <= in.width; x += 4) {
      for (auto& count : counts) {
        ++count[*value];
        value += in.channels;
      }
    }
    for (; x < in.width; ++x, value += in.channels) ++counts[0][*value];
  }
  Histogram sum{};
  for (int i = 0; i < kValues; ++i) {
    for (const auto& count : counts) sum[i] += count[i];
  }
  return sum;
}

ByteTable identity_table() {
  ByteTable table;
  for (int i = 0; i < kValues; ++i) table[i] = static_cast<uint8_t>(i);
  return table;
}

// Pillow's blend of two bytes: float32, fractions cut off, clipped where it leads out of both.
inline float blend(float from, float to, float alpha) { return from + alpha * (to - from); }

inline uint8_t cut_to_byte(float value) {
  return static_cast<uint8_t>(static_cast<int32_t>(std::min(std::max(value, 0.0f), 255.0f)));
}

// A blend of the image with one gray level.
ByteTable blend_table(uint8_t level, double factor) {
  ByteTable table;
  const auto alpha = static_cast<float>(factor);
  for (int i = 0; i < kValues; ++i) {
    table[i] = cut_to_byte(blend(static_cast<float>(level), static_cast<float>(i), alpha));
  }
  return table;
}

ByteTable auto_contrast_table(const Histogram& histogram) {
  int low = 0, high = kValues - 1;
  while (low < kValues - 1 && histogram[low] == 0) ++low;
  while (high > 0 && histogram[high] == 0) --high;
  if (high <= low) return identity_table();
  ByteTable table;
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  for (int i = 0; i < kValues; ++i) {
    table[i] = static_cast<uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
  }
  return table;
}

ByteTable equalize_table(const Histogram& histogram) {
  int64_t total = 0, last = 0;
  for (const int64_t count : histogram) {
    total += count;
    if (count != 0) last = count;
  }
  const int64_t step = (total - last) / 255;
  if (step == 0) return identity_table();
  ByteTable table;
  int64_t sum = step / 2;
  for (int i = 0; i < kValues; ++i) {
    table[i] = static_cast<uint8_t>(std::min<int64_t>(sum / step, 255));
    sum += histogram[i];
  }
  return table;
}

FOVEA_SIMD int64_t luma_sum(const uint8_t* rgb, int32_t count) {
  int32_t sum = 0;  // of one row: below 2^31 for rows of 8 million pixels
#pragma omp simd reduction(+ : sum)
  for (int32_t x = 0; x < count; ++x) {
    sum += luma(rgb[3 * x], rgb[3 * x + 1], rgb[3 * x + 2]);
  }
  return sum;
}

FOVEA_SIMD int64_t byte_sum(const uint8_t* bytes, int32_t count) {
  int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int32_t x = 0; x < count; ++x) sum += bytes[x];
  return sum;
}

FOVEA_SIMD void blend_with_luma(const uint8_t* rgb, int32_t count, float alpha, uint8_t* out) {
#pragma omp simd
  for (int32_t x = 0; x < count; ++x) {
    const int32_t r = rgb[3 * x], g = rgb[3 * x + 1], b = rgb[3 * x + 2];
    const auto gray = static_cast<float>(luma(r, g, b));
    out[3 * x] = cut_to_byte(gray + alpha * (static_cast<float>(r) - gray));
    out[3 * x + 1] = cut_to_byte(gray + alpha * (static_cast<float>(g) - gray));
    out[3 * x + 2] = cut_to_byte(gray + alpha * (static_cast<float>(b) - gray));
  }
}

FOVEA_SIMD void luma_to_rgb(const uint8_t* rgb, int32_t count, uint8_t* out) {
  for (int32_t x = 0; x < count; ++x) {
    const uint8_t gray = luma(rgb + 3 * x);
    out[3 * x] = gray;
    out[3 * x + 1] = gray;
    out[3 * x + 2] = gray;
  }
}

// Blend with Pillow's SMOOTH: ones around a five, over 13. The sum is a whole number and never
// halfway between two results, so float32 rounds it rightly. Elements [first, last) of a row whose
// pixels are `step` bytes.
FOVEA_SIMD void blend_with_smooth(const uint8_t* above, const uint8_t* here, const uint8_t* below,
                                  int32_t step, int32_t first, int32_t last, float alpha,
                                  uint8_t* out) {
#pragma omp simd
  for (int32_t i = first; i < last; ++i) {
    const int32_t sum = above[i - step] + above[i] + above[i + step] + here[i - step] +
                        5 * here[i] + here[i + step] + below[i - step] + below[i] + below[i + step];
    const auto smooth =
        static_cast<float>(static_cast<int32_t>(static_cast<float>(sum) * (1.0f / 13.0f) + 0.5f));
    out[i] = cut_to_byte(smooth + alpha * (static_cast<float>(here[i]) - smooth));
  }
}

FOVEA_SIMD void blend_bytes(const uint8_t* from, const uint8_t* to, int64_t count, float alpha,
                            uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const float start = from[i];
    out[i] = cut_to_byte(start + alpha * (static_cast<float>(to[i]) - start));
  }
}

struct Hsv {
  uint8_t h, s, v;
};

// In the types of Pillow's conversion, which decide the last bit.
Hsv to_hsv(int r, int g, int b) {
  const int high = std::max(r, std::max(g, b));
  const int low = std::min(r, std::min(g, b));
  if (high == low) return {0, 0, static_cast<uint8_t>(high)};
  const auto range = static_cast<float>(high - low);
  const float saturation = range / static_cast<float>(high);
  const float rc = static_cast<float>(high - r) / range;
  const float gc = static_cast<float>(high - g) / range;
  const float bc = static_cast<float>(high - b) / range;
  float hue;
  if (r == high) {
    hue = bc - gc;
  } else if (g == high) {
    hue = static_cast<float>(2.0 + static_cast<double>(rc) - static_cast<double>(bc));
  } else {
    hue = static_cast<float>(4.0 + static_cast<double>(gc) - static_cast<double>(rc));
  }
  double turns = static_cast<double>(hue) / 6.0 + 1.0;  // in [5/6, 11/6)
  if (turns >= 1.0) turns -= 1.0;
  hue = static_cast<float>(turns);
  return {static_cast<uint8_t>(static_cast<int>(static_cast<double>(hue) * 255.0)),
          static_cast<uint8_t>(static_cast<int>(static_cast<double>(saturation) * 255.0)),
          static_cast<uint8_t>(high)};
}

// Value times a share in [0, 1], to the nearest byte. Halves go up; lround would be a call.
uint8_t scaled(float value, double share) {
  return static_cast<uint8_t>(static_cast<int>(static_cast<double>(value) * share + 0.5));
}

void to_rgb(const Hsv& hsv, uint8_t* out) {
  if (hsv.s == 0) {
    std::memset(out, hsv.v, 3);
    return;
  }
  const double place = static_cast<double>(static_cast<float>(hsv.h)) * 6.0 / 255.0;
  const int sector = static_cast<int>(place);
  const auto fraction = static_cast<float>(place - static_cast<double>(static_cast<float>(sector)));
  const auto s = static_cast<float>(static_cast<double>(static_cast<float>(hsv.s)) / 255.0);
  const auto v = static_cast<float>(hsv.v);
  const uint8_t p = scaled(v, 1.0 - static_cast<double>(s));
  const uint8_t q = scaled(v, 1.0 - static_cast<double>(s * fraction));
  const uint8_t t = scaled(v, 1.0 - static_cast<double>(s) * (1.0 - static_cast<double>(fraction)));
  const uint8_t results[6][3] = {{hsv.v, t, p}, {q, hsv.v, p}, {p, hsv.v, t},
                                 {p, q, hsv.v}, {t, p, hsv.v}, {hsv.v, p, q}};
  std::memcpy(out, results[sector % 6], 3);
}

}  // namespace

void apply_table(const ImageView& in, const ByteTable& table, Image& out) {
  const int64_t count = in.width * in.channels;
  for_each_row(in, out, [&](int64_t y, uint8_t* target) {
    const uint8_t* row = in.row(y);
    for (int64_t i = 0; i < count; ++i) target[i] = table[row[i]];
  });
}

void apply_tables(const ImageView& in, std::span<const ByteTable> tables, Image& out) {
  FOVEA_CHECK(static_cast<int64_t>(tables.size()) == in.channels, "{} tables for {} channels",
              tables.size(), in.channels);
  if (in.channels == 1) return apply_table(in, tables[0], out);
  const int64_t count = in.width * in.channels;
  for_each_row(in, out, [&](int64_t y, uint8_t* target) {
    const uint8_t* row = in.row(y);
    if (tables.size() == 3) {
      const ByteTable &first = tables[0], &second = tables[1], &third = tables[2];
      for (int64_t i = 0; i < count; i += 3) {
        target[i] = first[row[i]];
        target[i + 1] = second[row[i + 1]];
        target[i + 2] = third[row[i + 2]];
      }
    } else {
      for (int64_t i = 0; i < count; ++i) target[i] = tables[i % in.channels][row[i]];
    }
  });
}

ByteTable invert_table() { return solarize_table(0); }

ByteTable solarize_table(double threshold) {
  ByteTable table;
  for (int i = 0; i < kValues; ++i) table[i] = static_cast<uint8_t>(i < threshold ? i : 255 - i);
  return table;
}

ByteTable solarize_add_table(int add, int threshold) {
  ByteTable table;
  for (int i = 0; i < kValues; ++i) {
    table[i] = static_cast<uint8_t>(i < threshold ? std::clamp(i + add, 0, 255) : i);
  }
  return table;
}

ByteTable posterize_table(int bits) {
  FOVEA_CHECK(bits >= 0 && bits <= 8, "posterize to {} bits; expected 0 to 8", bits);
  ByteTable table;
  for (int i = 0; i < kValues; ++i) table[i] = static_cast<uint8_t>(i & ~((1 << (8 - bits)) - 1));
  return table;
}

namespace {

// Tables of each channel, in a buffer that the thread keeps.
template <class F>
void apply_channel_tables(const ImageView& in, Image& out, F&& table_of) {
  thread_local std::vector<ByteTable> tables;
  tables.resize(static_cast<size_t>(in.channels));
  for (int64_t c = 0; c < in.channels; ++c) tables[c] = table_of(histogram_of(in, c));
  apply_tables(in, tables, out);
}

}  // namespace

void auto_contrast(const ImageView& in, Image& out) {
  apply_channel_tables(in, out, auto_contrast_table);
}

void equalize(const ImageView& in, Image& out) { apply_channel_tables(in, out, equalize_table); }

void adjust_brightness(const ImageView& in, double factor, Image& out) {
  apply_table(in, blend_table(0, factor), out);
}

void adjust_contrast(const ImageView& in, double factor, Image& out) {
  check_channels(in, "contrast");
  int64_t sum = 0;
  for (int64_t y = 0; y < in.height; ++y) {
    const auto width = static_cast<int32_t>(in.width);
    sum += in.channels == 3 ? luma_sum(in.row(y), width) : byte_sum(in.row(y), width);
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(in.height * in.width);
  apply_table(in, blend_table(static_cast<uint8_t>(mean + 0.5), factor), out);
}

void adjust_saturation(const ImageView& in, double factor, Image& out) {
  check_channels(in, "saturation");
  const auto alpha = static_cast<float>(factor);
  if (in.channels == 1 || alpha == 1.0f) return copy_image(in, out);
  for_each_row(in, out, [&](int64_t y, uint8_t* target) {
    blend_with_luma(in.row(y), static_cast<int32_t>(in.width), alpha, target);
  });
}

void adjust_sharpness(const ImageView& in, double factor, Image& out) {
  const auto alpha = static_cast<float>(factor);
  if (alpha == 1.0f || in.height < 3 || in.width < 3) return copy_image(in, out);
  const auto step = static_cast<int32_t>(in.channels);
  const auto count = static_cast<int32_t>(in.width * in.channels);
  for_each_row(in, out, [&](int64_t y, uint8_t* target) {
    const uint8_t* here = in.row(y);
    if (y == 0 || y + 1 == in.height) {
      std::memcpy(target, here, static_cast<size_t>(count));
      return;
    }
    std::memcpy(target, here, static_cast<size_t>(step));
    std::memcpy(target + count - step, here + count - step, static_cast<size_t>(step));
    blend_with_smooth(in.row(y - 1), here, in.row(y + 1), step, step, count - step, alpha, target);
  });
}

void blend_images(const ImageView& from, const ImageView& to, double alpha, Image& out) {
  FOVEA_CHECK(from.size() == to.size() && from.channels == to.channels,
              "a blend of images of {}x{}x{} and {}x{}x{}; they must be equal", from.height,
              from.width, from.channels, to.height, to.width, to.channels);
  for_each_row(from, out, [&](int64_t y, uint8_t* target) {
    blend_bytes(from.row(y), to.row(y), from.width * from.channels, static_cast<float>(alpha),
                target);
  });
}

void adjust_hue(const ImageView& in, double factor, Image& out) {
  FOVEA_CHECK(factor >= -0.5 && factor <= 0.5, "hue factor {}; expected -0.5 to 0.5", factor);
  check_channels(in, "hue");
  if (in.channels == 1) return copy_image(in, out);
  const auto shift = static_cast<uint8_t>(static_cast<int32_t>(factor * 255));
  for_each_row(in, out, [&](int64_t y, uint8_t* target) {
    const uint8_t* pixel = in.row(y);
    for (int64_t x = 0; x < in.width; ++x, pixel += 3, target += 3) {
      Hsv hsv = to_hsv(pixel[0], pixel[1], pixel[2]);
      hsv.h = static_cast<uint8_t>(hsv.h + shift);
      to_rgb(hsv, target);
    }
  });
}

void to_grayscale(const ImageView& in, Image& out) {
  check_channels(in, "grayscale");
  if (in.channels == 1) return copy_image(in, out);
  for_each_row(in, out, [&](int64_t y, uint8_t* target) {
    luma_to_rgb(in.row(y), static_cast<int32_t>(in.width), target);
  });
}

void copy_image(const ImageView& in, Image& out) {
  for_each_row(in, out, [&](int64_t y, uint8_t* target) {
    std::memcpy(target, in.row(y), static_cast<size_t>(in.width * in.channels));
  });
}

}  // namespace fovea::data
