#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/data/transforms/image/affine_kernels.h"

namespace fovea::data {
namespace {

constexpr int kFixedBits = 16;  // 16.16 fixed point, as in Pillow

int32_t to_fixed(double value) { return static_cast<int32_t>(std::floor(value * 65536.0 + 0.5)); }

// Whether every corner fits 16.16.
bool fits_fixed(const AffineMatrix& m, ImageSize size) {
  for (const double x : {0.0, static_cast<double>(size.width)}) {
    for (const double y : {0.0, static_cast<double>(size.height)}) {
      if (std::abs(x * m[0] + y * m[1] + m[2]) >= 32768.0 ||
          std::abs(x * m[3] + y * m[4] + m[5]) >= 32768.0) {
        return false;
      }
    }
  }
  return true;
}

struct FixedPlace {
  int64_t x = 0, y = 0;
};

// Which i in [0, count) have start + i * step in [0, limit).
PixelRange steps_inside(int64_t start, int64_t step, int64_t limit, int64_t count) {
  if (step == 0) return {0, start >= 0 && start < limit ? count : 0};
  // Down from the end is up from the end seen from there.
  const int64_t from = step > 0 ? start : limit - 1 - start;
  const int64_t size = std::abs(step);
  const auto steps_to = [&](int64_t place) {
    return from >= place ? 0 : std::min((place - from + size - 1) / size, count);
  };
  return {steps_to(0), steps_to(limit)};
}

PixelRange intersection(PixelRange a, PixelRange b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Pixels at place, place + step, ..., all of them inside.
void copy_pixels(const ImageView& in, FixedPlace place, FixedPlace step, int64_t count,
                 uint8_t* out) {
  const auto next_offset = [&] {
    const int64_t offset =
        (place.y >> kFixedBits) * in.row_stride + (place.x >> kFixedBits) * in.channels;
    place.x += step.x;
    place.y += step.y;
    return offset;
  };
  if (in.channels == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = in.pixels[next_offset()];
    return;
  }
  // Three bytes as four: the next pixel overwrites the one too many. Not at the row's end, and not
  // where the input ends.
  const int64_t last_offset = (in.height - 1) * in.row_stride + in.width * 3 - 4;
  for (int64_t i = 0; i + 1 < count; ++i, out += 3) {
    const int64_t offset = next_offset();
    if (offset <= last_offset) {
      std::memcpy(out, in.pixels + offset, 4);
    } else {
      std::memcpy(out, in.pixels + offset, 3);
    }
  }
  if (count > 0) std::memcpy(out, in.pixels + next_offset(), 3);
}

void nearest_fixed(const ImageView& in, FixedPlace start, const int32_t (&step)[4], Image& out,
                   const AffineScratch& scratch) {
  const int64_t channels = in.channels;
  const bool is_whole = step[0] == 1 << kFixedBits && step[2] == 0;
  uint8_t* row = out.pixels.data();
  for (int64_t y = 0; y < out.height; ++y, row += out.width * channels) {
    const PixelRange range =
        intersection(steps_inside(start.x, step[0], in.width << kFixedBits, out.width),
                     steps_inside(start.y, step[2], in.height << kFixedBits, out.width));
    fill_row_ends(scratch.fill, channels, range, out.width, row);
    const FixedPlace first = {start.x + range.begin * step[0], start.y + range.begin * step[2]};
    uint8_t* target = row + range.begin * channels;
    if (!is_whole) {
      copy_pixels(in, first, {step[0], step[2]}, range.size(), target);
    } else if (range.size() > 0) {
      std::memcpy(target, in.row(first.y >> kFixedBits) + (first.x >> kFixedBits) * channels,
                  static_cast<size_t>(range.size() * channels));
    }
    start.x += step[1];
    start.y += step[3];
  }
}

// The pixel that a place lies in; -1: outside.
int32_t pixel_at(double place, int64_t size) {
  return place < 0 || place >= static_cast<double>(size) ? -1 : static_cast<int32_t>(place);
}

// Nothing but scale and shift: all rows have the same columns.
void nearest_scaled(const ImageView& in, const AffineMatrix& m, double x_start, double y_start,
                    Image& out, AffineScratch& scratch) {
  auto& columns = scratch.x;
  columns.resize(static_cast<size_t>(out.width));
  double x_in = x_start;
  for (auto& column : columns) {
    column = pixel_at(x_in, in.width);
    x_in += m[0];
  }
  PixelRange range = {0, out.width};
  while (range.begin < range.end && columns[range.begin] < 0) ++range.begin;
  while (range.end > range.begin && columns[range.end - 1] < 0) --range.end;
  bool is_whole = true;
  for (int64_t x = range.begin; x < range.end; ++x) {
    is_whole = is_whole && columns[x] - columns[range.begin] == x - range.begin;
  }
  const int64_t channels = in.channels;
  uint8_t* row = out.pixels.data();
  double y_in = y_start;
  for (int64_t y = 0; y < out.height; ++y, row += out.width * channels, y_in += m[4]) {
    const int32_t from_y = pixel_at(y_in, in.height);
    const PixelRange inside = from_y < 0 ? PixelRange() : range;
    fill_row_ends(scratch.fill, channels, inside, out.width, row);
    if (inside.size() == 0) continue;
    const uint8_t* from = in.row(from_y);
    if (is_whole) {
      std::memcpy(row + inside.begin * channels, from + columns[inside.begin] * channels,
                  static_cast<size_t>(inside.size() * channels));
      continue;
    }
    for (int64_t x = inside.begin; x < inside.end; ++x) {
      for (int64_t c = 0; c < channels; ++c)
        row[x * channels + c] = from[columns[x] * channels + c];
    }
  }
}

// Any matrix, in float64 that adds up.
void nearest_any(const ImageView& in, const AffineMatrix& m, double x_start, double y_start,
                 Image& out, const AffineScratch& scratch) {
  const auto bytes = static_cast<size_t>(in.channels);
  uint8_t* target = out.pixels.data();
  for (int64_t y = 0; y < out.height; ++y) {
    fill_row_ends(scratch.fill, in.channels, {}, out.width, target);
    double x_in = x_start, y_in = y_start;
    for (int64_t x = 0; x < out.width; ++x, target += in.channels) {
      const int64_t from_x = pixel_at(x_in, in.width), from_y = pixel_at(y_in, in.height);
      if (from_x >= 0 && from_y >= 0) {
        std::memcpy(target, in.row(from_y) + from_x * in.channels, bytes);
      }
      x_in += m[0];
      y_in += m[3];
    }
    x_start += m[1];
    y_start += m[4];
  }
}

}  // namespace

void fill_row_ends(const std::vector<uint8_t>& fill, int64_t channels, PixelRange range,
                   int64_t width, uint8_t* out) {
  std::memcpy(out, fill.data(), static_cast<size_t>(range.begin * channels));
  std::memcpy(out + range.end * channels, fill.data(),
              static_cast<size_t>((width - range.end) * channels));
}

void affine_nearest(const ImageView& in, const AffineMatrix& m, Image& out,
                    AffineScratch& scratch) {
  const double x_start = m[2] + m[0] * 0.5 + m[1] * 0.5;
  const double y_start = m[5] + m[3] * 0.5 + m[4] * 0.5;
  // Pillow adds up in float64 where nothing but scale and shift is asked for, else in 16.16.
  if (m[1] == 0 && m[3] == 0) return nearest_scaled(in, m, x_start, y_start, out, scratch);
  if (!fits_fixed(m, {out.height, out.width})) {
    return nearest_any(in, m, x_start, y_start, out, scratch);
  }
  const int32_t step[4] = {to_fixed(m[0]), to_fixed(m[1]), to_fixed(m[3]), to_fixed(m[4])};
  nearest_fixed(in, {to_fixed(x_start), to_fixed(y_start)}, step, out, scratch);
}

}  // namespace fovea::data
