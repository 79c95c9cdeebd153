// GELU in vectors of 16 floats (gelu.h says how near), for what is compiled for AVX-512: a
// polynomial for each piece of |x|, whose coefficients lie in two registers for each power.
#pragma once

#include <array>
#include <cstdint>

#include "fovea/kernels/cpu/avx512.h"
#include "fovea/kernels/cpu/gelu_tables.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {

// |x|, at most kGeluEnd, and the pieces that it falls into, in the lowest five bits.
struct GeluPieces {
  __m512 a;
  __m512i piece;
};
FOVEA_AVX512_INLINE GeluPieces gelu_pieces(__m512 x) {
  // Of a NaN and a number the minimum is the second operand.
  const auto a = _mm512_min_ps(_mm512_set1_ps(kGeluEnd), _mm512_abs_ps(x));
  // Added to it, a number is its nearest integer, in the lowest bits.
  const auto shifter = _mm512_set1_ps(12582912.0f);  // 1.5 * 2^23
  const auto shifted = _mm512_fmadd_ps(a, _mm512_set1_ps(1 / kGeluStep), shifter);
  return {a, _mm512_castps_si512(shifted)};
}

// The polynomials of a's pieces. table: a row for each power.
FOVEA_AVX512_INLINE __m512 of_pieces(const float (&row)[32], const GeluPieces& at) {
  return _mm512_permutex2var_ps(_mm512_load_ps(row), at.piece, _mm512_load_ps(row + 16));
}
template <int kRows>
FOVEA_AVX512_INLINE __m512 polynomial(const float (&table)[kRows][32], const GeluPieces& at) {
  auto sum = of_pieces(table[0], at);
#pragma GCC unroll 4
  for (int i = 1; i < kRows; ++i) sum = _mm512_fmadd_ps(sum, at.a, of_pieces(table[i], at));
  return sum;
}

// x Phi(x) = max(x, 0) - |x| Phi(-|x|).
FOVEA_AVX512_INLINE __m512 gelu_of(__m512 x, const GeluPieces& at) {
  return _mm512_sub_ps(_mm512_max_ps(x, _mm512_setzero_ps()), polynomial(kGeluBelow, at));
}
FOVEA_AVX512_INLINE __m512 gelu_of(__m512 x) { return gelu_of(x, gelu_pieces(x)); }

// 0, 16, 1, 17, ...: of the halves of a register one by one.
alignas(64) inline constexpr auto kHalvesInTurn = [] {
  std::array<uint16_t, 32> order = {};
  for (uint16_t i = 0; i < 32; ++i) order[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
  return order;
}();

// Of 32 values of bfloat16, rounded once. Every other one is widened by one instruction; halves
// would take three.
FOVEA_AVX512_INLINE __m512i gelu_of(__m512i x) {
  const auto even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
  const auto odd = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-1 << 16)));
  return _mm512_permutexvar_epi16(_mm512_load_si512(kHalvesInTurn.data()),
                                  round_to_bfloat16(gelu_of(even), gelu_of(odd)));
}

// Phi(x) + x phi(x), which is one less that of -x.
FOVEA_AVX512_INLINE __m512 gelu_derivative_of(__m512 x, const GeluPieces& at) {
  const auto below = polynomial(kGeluSlopeBelow, at);
  const auto is_positive = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GE_OQ);
  return _mm512_mask_sub_ps(below, is_positive, _mm512_set1_ps(1.0f), below);
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#endif
