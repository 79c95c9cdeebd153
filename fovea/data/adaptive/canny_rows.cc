#include "fovea/data/adaptive/canny_rows.h"

#include <algorithm>

#include "fovea/data/adaptive/border.h"

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/data/adaptive/canny_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::data::patching::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Bytes = hn::ScalableTag<uint8_t>;
using Words = hn::ScalableTag<uint16_t>;
using Signed = hn::ScalableTag<int16_t>;

enum Direction : int16_t { kHorizontal = 0, kVertical = 1, kFalling = 2, kRising = 3 };

void split_channels_loop(const uint8_t* in, int64_t width, int64_t channels, uint8_t* planes,
                         int64_t stride) {
  if (channels == 1) {
    std::copy_n(in, width, planes);
    return;
  }
  int64_t x = 0;
  if (channels == 3) {
    const Bytes d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; x + lanes <= width; x += lanes) {
      hn::Vec<Bytes> a, b, c;
      hn::LoadInterleaved3(d, in + 3 * x, a, b, c);
      hn::StoreU(a, d, planes + x);
      hn::StoreU(b, d, planes + stride + x);
      hn::StoreU(c, d, planes + 2 * stride + x);
    }
  }
  for (; x < width; ++x) {
    for (int64_t c = 0; c < channels; ++c) planes[c * stride + x] = in[x * channels + c];
  }
}

hn::Vec<Words> load_words(const uint8_t* from) {
  const Words d;
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint8_t, Words>(), from));
}

// 1 2 1, or 1 4 6 4 1: the binomial weights that OpenCV uses for these sizes where sigma is left
// out. `load(k)` gives the values k - size / 2 steps away.
template <int Size, class Load>
hn::Vec<Words> binomial(Load&& load) {
  if constexpr (Size == 3) {
    const auto middle = load(1);
    return hn::Add(hn::Add(load(0), load(2)), hn::Add(middle, middle));
  } else {
    const auto outer = hn::Add(load(0), load(4));
    const auto inner = hn::ShiftLeft<2>(hn::Add(load(1), load(3)));
    const auto middle = load(2);
    const auto six = hn::Add(hn::ShiftLeft<2>(middle), hn::Add(middle, middle));
    return hn::Add(hn::Add(outer, inner), six);
  }
}

template <int Size>
void blur_row_of(const uint8_t* const* rows, int64_t width, uint16_t* sums, int16_t* out) {
  constexpr int kRadius = Size / 2;
  constexpr int kShift = Size == 3 ? 4 : 8;  // of the two passes together
  const Words d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  uint16_t* row = sums + kRowMargin;
  for (int64_t x = 0; x < width; x += lanes) {
    hn::StoreU(binomial<Size>([&](int k) { return load_words(rows[k] + x); }), d, row + x);
  }
  for (int64_t i = 1; i <= kRadius; ++i) {
    row[-i] = row[reflect101(-i, width)];
    row[width - 1 + i] = row[reflect101(width - 1 + i, width)];
  }
  const auto half = hn::Set(d, uint16_t{1 << (kShift - 1)});
  for (int64_t x = 0; x < width; x += lanes) {
    const auto sum = binomial<Size>([&](int k) { return hn::LoadU(d, row + x + k - kRadius); });
    const auto rounded = hn::ShiftRight<kShift>(hn::Add(sum, half));
    hn::StoreU(hn::BitCast(Signed(), rounded), Signed(), out + x);
  }
}

void blur_row_loop(const uint8_t* const* rows, int64_t size, int64_t width, uint16_t* sums,
                   int16_t* out) {
  if (size == 3) {
    blur_row_of<3>(rows, width, sums, out);
  } else if (size == 5) {
    blur_row_of<5>(rows, width, sums, out);
  } else {
    const auto lanes = static_cast<int64_t>(hn::Lanes(Words()));
    for (int64_t x = 0; x < width; x += lanes) {
      hn::StoreU(hn::BitCast(Signed(), load_words(rows[0] + x)), Signed(), out + x);
    }
  }
  out[-1] = out[0];
  out[width] = out[width - 1];
}

struct Gradient {
  hn::Vec<Signed> dx, dy, norm;
};

Gradient gradient_at(const int16_t* up, const int16_t* middle, const int16_t* down) {
  const Signed d;
  const auto at = [&](const int16_t* row, int64_t offset) { return hn::LoadU(d, row + offset); };
  const auto right = hn::Add(at(up, 1), at(down, 1));
  const auto left = hn::Add(at(up, -1), at(down, -1));
  const auto across = hn::Sub(at(middle, 1), at(middle, -1));
  const auto below = hn::Add(at(down, -1), at(down, 1));
  const auto above = hn::Add(at(up, -1), at(up, 1));
  const auto through = hn::Sub(at(down, 0), at(up, 0));
  Gradient result;
  result.dx = hn::Add(hn::Sub(right, left), hn::Add(across, across));
  result.dy = hn::Add(hn::Sub(below, above), hn::Add(through, through));
  result.norm = hn::Add(hn::Abs(result.dx), hn::Abs(result.dy));
  return result;
}

// tan 22.5 degrees is 13573 / 32768 in OpenCV, and tan 67.5 degrees two more. With f = floor(x
// 13573 / 32768) the tests y < x tan 22.5 and y > x tan 67.5 are y <= f and y > f + 2 x: the
// product is no multiple of 32768 for 0 < x < 32768, and x = 0 with y = 0 is no candidate.
hn::Vec<Signed> direction_of(hn::Vec<Signed> dx, hn::Vec<Signed> dy) {
  const Signed d;
  const Words w;
  const auto x = hn::Abs(dx);
  const auto y = hn::Abs(dy);
  const auto twice = hn::Add(x, x);
  const auto f = hn::BitCast(d, hn::MulHigh(hn::BitCast(w, twice), hn::Set(w, uint16_t{13573})));
  const auto is_rising = hn::Lt(hn::Xor(dx, dy), hn::Zero(d));
  auto direction = hn::IfThenElse(is_rising, hn::Set(d, kRising), hn::Set(d, kFalling));
  direction = hn::IfThenElse(hn::Gt(y, hn::Add(f, twice)), hn::Set(d, kVertical), direction);
  return hn::IfThenElse(hn::Gt(y, f), direction, hn::Set(d, kHorizontal));
}

void sobel_row_loop(const int16_t* const rows[3], int64_t channels, int64_t stride, int64_t width,
                    int16_t* magnitude, int16_t* direction) {
  const Signed d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t x = 0; x < width; x += lanes) {
    Gradient best = gradient_at(rows[0] + x, rows[1] + x, rows[2] + x);
    for (int64_t c = 1; c < channels; ++c) {
      const int64_t at = c * stride + x;
      const Gradient other = gradient_at(rows[0] + at, rows[1] + at, rows[2] + at);
      const auto is_larger = hn::Gt(other.norm, best.norm);
      best.dx = hn::IfThenElse(is_larger, other.dx, best.dx);
      best.dy = hn::IfThenElse(is_larger, other.dy, best.dy);
      best.norm = hn::Max(best.norm, other.norm);
    }
    hn::StoreU(best.norm, d, magnitude + x);
    hn::StoreU(direction_of(best.dx, best.dy), d, direction + x);
  }
  magnitude[-1] = 0;
  for (int64_t x = 0; x <= lanes; ++x) magnitude[width + x] = 0;
}

void suppress_row_loop(const int16_t* const magnitudes[3], const int16_t* direction, int64_t width,
                       int low, int high, uint64_t* candidates, uint64_t* strong) {
  const Signed d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t words = (width + 63) / 64;
  std::fill_n(candidates, words, uint64_t{0});
  std::fill_n(strong, words, uint64_t{0});
  const auto low_limit = hn::Set(d, static_cast<int16_t>(low));
  const auto high_limit = hn::Set(d, static_cast<int16_t>(high));
  for (int64_t x = 0; x < width; x += lanes) {
    const auto m = hn::LoadU(d, magnitudes[1] + x);
    const auto is_above = hn::Gt(m, low_limit);
    if (hn::AllFalse(d, is_above)) continue;
    const auto at = [&](int row, int64_t offset) {
      return hn::LoadU(d, magnitudes[row] + x + offset);
    };
    const auto way = hn::LoadU(d, direction + x);
    const auto is_horizontal = hn::Eq(way, hn::Set(d, kHorizontal));
    const auto is_vertical = hn::Eq(way, hn::Set(d, kVertical));
    const auto is_falling = hn::Eq(way, hn::Set(d, kFalling));
    // The neighbour before the pixel must be smaller; the one after it too on a diagonal, else it
    // may be equal.
    auto before = hn::IfThenElse(is_falling, at(0, -1), at(0, 1));
    auto after = hn::IfThenElse(is_falling, at(2, 1), at(2, -1));
    before = hn::IfThenElse(is_vertical, at(0, 0), before);
    before = hn::IfThenElse(is_horizontal, at(1, -1), before);
    const auto one = hn::Set(d, int16_t{1});
    after = hn::IfThenElse(is_vertical, hn::Sub(at(2, 0), one), after);
    after = hn::IfThenElse(is_horizontal, hn::Sub(at(1, 1), one), after);
    const auto is_candidate = hn::And(is_above, hn::And(hn::Gt(m, before), hn::Gt(m, after)));
    const auto is_strong = hn::And(is_candidate, hn::Gt(m, high_limit));
    hn::StoreMaskBits(d, is_candidate, reinterpret_cast<uint8_t*>(candidates) + x / 8);
    hn::StoreMaskBits(d, is_strong, reinterpret_cast<uint8_t*>(strong) + x / 8);
  }
}

}  // namespace
}  // namespace fovea::data::patching::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::data::patching {

HWY_EXPORT(split_channels_loop);
HWY_EXPORT(blur_row_loop);
HWY_EXPORT(sobel_row_loop);
HWY_EXPORT(suppress_row_loop);

void split_channels(const uint8_t* in, int64_t width, int64_t channels, uint8_t* planes,
                    int64_t stride) {
  HWY_DYNAMIC_DISPATCH(split_channels_loop)(in, width, channels, planes, stride);
}

void blur_row(const uint8_t* const* rows, int64_t size, int64_t width, uint16_t* sums,
              int16_t* out) {
  HWY_DYNAMIC_DISPATCH(blur_row_loop)(rows, size, width, sums, out);
}

void sobel_row(const int16_t* const rows[3], int64_t channels, int64_t stride, int64_t width,
               int16_t* magnitude, int16_t* direction) {
  HWY_DYNAMIC_DISPATCH(sobel_row_loop)(rows, channels, stride, width, magnitude, direction);
}

void suppress_row(const int16_t* const magnitudes[3], const int16_t* direction, int64_t width,
                  int low, int high, uint64_t* candidates, uint64_t* strong) {
  HWY_DYNAMIC_DISPATCH(suppress_row_loop)
  (magnitudes, direction, width, low, high, candidates, strong);
}

}  // namespace fovea::data::patching
#endif
