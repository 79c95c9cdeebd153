#include "fovea/kernels/cpu/int8_bytes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512.h"

namespace fovea::kernels::cpu {
namespace {

constexpr int64_t kGroup = 4;  // codes
constexpr int64_t kGroupOfStrip = kInt8BytesWidth * kGroup;

// Of one column's group: see Note [Sums of 16 bits].
bool column_fits(const int8_t* codes) {
  constexpr int kMost = 128;
  for (int64_t i = 0; i < kGroup; i += 2) {
    const int first = codes[i], second = codes[i + 1];
    if (std::max(first, 0) + std::max(second, 0) > kMost) return false;
    if (std::min(first, 0) + std::min(second, 0) < -kMost) return false;
  }
  return true;
}

bool group_fits(const int8_t* group) {
  for (int64_t c = 0; c < kInt8BytesWidth; ++c) {
    if (!column_fits(group + c * kGroup)) return false;
  }
  return true;
}

}  // namespace

int64_t order_int8_strip(uint8_t* strip, int64_t groups, int32_t* places, int32_t* shifts) {
  const auto* codes = reinterpret_cast<const int8_t*>(strip);
  std::iota(places, places + groups, 0);
  const auto* others = std::stable_partition(places, places + groups, [&](int32_t group) {
    return group_fits(codes + group * kGroupOfStrip);
  });
  std::fill_n(shifts, kInt8BytesWidth, 0);
  std::vector<uint8_t> ordered(static_cast<size_t>(groups * kGroupOfStrip));
  for (int64_t i = 0; i < groups; ++i) {
    const auto* group = codes + places[i] * kGroupOfStrip;
    std::memcpy(ordered.data() + i * kGroupOfStrip, group, kGroupOfStrip);
    for (int64_t k = 0; places + i >= others && k < kGroupOfStrip; ++k) {
      shifts[k / kGroup] += 128 * group[k];
    }
  }
  std::copy(ordered.begin(), ordered.end(), strip);
  for (int64_t i = 0; i < groups; ++i) places[i] *= kGroup;
  return others - places;
}

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace {

inline int32_t codes_at(const uint8_t* from) {
  int32_t codes;
  std::memcpy(&codes, from, sizeof(codes));
  return codes;
}

// The sums of a block, which stand in registers: loops over rows must be unrolled for that.
struct Block {
  __m256i sums[kInt8BytesRows][2];
};

// sum + the four products of each column, whose pairs fit.
FOVEA_AVX2_INLINE __m256i add_products(__m256i sum, __m256i codes, __m256i weights) {
  const auto pairs = _mm256_maddubs_epi16(codes, weights);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_set1_epi16(1), pairs));
}

FOVEA_AVX2_INLINE void add_fitting_group(Block& block, const uint8_t* rows, int64_t stride,
                                         __m256i first, __m256i second) {
#pragma GCC unroll 6
  for (int64_t r = 0; r < kInt8BytesRows; ++r) {
    const auto codes = _mm256_set1_epi32(codes_at(rows + r * stride));
    block.sums[r][0] = add_products(block.sums[r][0], codes, first);
    block.sums[r][1] = add_products(block.sums[r][1], codes, second);
  }
}

FOVEA_AVX2_INLINE void add_other_group(Block& block, const uint8_t* rows, int64_t stride,
                                       __m256i first, __m256i second) {
  const auto middle = _mm256_set1_epi8(-128);
#pragma GCC unroll 6
  for (int64_t r = 0; r < kInt8BytesRows; ++r) {
    const auto codes = _mm256_xor_si256(_mm256_set1_epi32(codes_at(rows + r * stride)), middle);
    const auto sizes = _mm256_abs_epi8(codes);
    block.sums[r][0] = add_products(block.sums[r][0], sizes, _mm256_sign_epi8(first, codes));
    block.sums[r][1] = add_products(block.sums[r][1], sizes, _mm256_sign_epi8(second, codes));
  }
}

}  // namespace

FOVEA_AVX2 void multiply_int8_bytes(const Int8Factors& factors, bool adds, int32_t* sums) {
  const auto& order = factors.order;
  const auto* shifts = reinterpret_cast<const __m256i*>(order.shifts);
  auto* to = reinterpret_cast<__m256i*>(sums);  // [kInt8BytesRows, 2]
  Block block;
#pragma GCC unroll 6
  for (int64_t r = 0; r < kInt8BytesRows; ++r) {
#pragma GCC unroll 2
    for (int64_t v = 0; v < 2; ++v) {
      const auto shift = _mm256_loadu_si256(shifts + v);
      block.sums[r][v] = adds ? _mm256_add_epi32(shift, _mm256_loadu_si256(to + 2 * r + v)) : shift;
    }
  }
  const auto* strip = reinterpret_cast<const __m256i*>(factors.strip);
  auto coming = factors.coming;
  int64_t i = 0;
  for (; i < order.num_fitting; ++i, strip += 2) {
    if (i % kInt8GroupsOfStep == 0) coming.bring<2>();
    add_fitting_group(block, factors.rows + order.places[i], factors.stride,
                      _mm256_loadu_si256(strip), _mm256_loadu_si256(strip + 1));
  }
  for (; i < factors.groups; ++i, strip += 2) {
    if (i % kInt8GroupsOfStep == 0) coming.bring<2>();
    add_other_group(block, factors.rows + order.places[i], factors.stride,
                    _mm256_loadu_si256(strip), _mm256_loadu_si256(strip + 1));
  }
#pragma GCC unroll 6
  for (int64_t r = 0; r < kInt8BytesRows; ++r) {
    _mm256_storeu_si256(to + 2 * r, block.sums[r][0]);
    _mm256_storeu_si256(to + 2 * r + 1, block.sums[r][1]);
  }
}
FOVEA_INTRINSICS_POP

#else

void multiply_int8_bytes(const Int8Factors&, bool, int32_t*) {
  fail("AVX2 on a processor that has none");
}

#endif

}  // namespace fovea::kernels::cpu
