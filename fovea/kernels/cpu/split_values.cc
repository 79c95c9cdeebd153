#include "fovea/kernels/cpu/split_values.h"

#include <algorithm>
#include <bit>

#include "fovea/kernels/cpu/bfloat16_bits.h"
#include "fovea/kernels/cpu/loop_clones.h"

namespace fovea::kernels::cpu {
namespace {

constexpr uint16_t kExponent = 0x7F80;

// A finite value stays finite: those next to infinity are cut off.
FOVEA_LOOP inline uint16_t rounded(float x) {
  constexpr uint32_t kQuiet = 0x0040;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t cut = bits >> 16, nearest = nearest_upper_half(bits);
  const uint32_t of_finite = (nearest & kExponent) == kExponent ? cut : nearest;
  const uint32_t of_other = x != x ? cut | kQuiet : cut;  // NaN without its lower bits, too
  return static_cast<uint16_t>((cut & kExponent) == kExponent ? of_other : of_finite);
}

struct SplitFloat {
  uint16_t high, middle, low;
};

FOVEA_LOOP inline SplitFloat split(float x) {
  const auto high = rounded(x);
  const bool is_finite = (high & kExponent) != kExponent;
  const float left = is_finite ? x - float_of_bits(high) : 0.0f;
  const auto middle = rounded(left);
  return {high, middle, rounded(left - float_of_bits(middle))};
}

}  // namespace

void split_values(const float* values, int64_t count, std::span<const int> order, uint16_t* to,
                  int64_t step) {
  constexpr int64_t kAtOnce = 256;
  uint16_t parts[3][kAtOnce];
  for (int64_t begin = 0; begin < count; begin += kAtOnce) {
    const auto length = std::min(kAtOnce, count - begin);
    const float* from = values + begin;
    auto *high = parts[0], *middle = parts[1], *low = parts[2];
    run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
#pragma omp simd
      for (int64_t i = 0; i < length; ++i) {
        const auto found = split(from[i]);
        high[i] = found.high;
        middle[i] = found.middle;
        low[i] = found.low;
      }
    });
    for (size_t i = 0; i < order.size(); ++i) {
      std::copy_n(parts[order[i]], length, to + static_cast<int64_t>(i) * step + begin);
    }
  }
}

}  // namespace fovea::kernels::cpu
