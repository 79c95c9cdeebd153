// GELU in vectors of 16 floats (gelu.h says how near), for what is compiled for AVX-512.
#pragma once

#include "fovea/kernels/cpu/avx512.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {

// 2^x for x from -125 to 0, to a relative error of 2.6e-6, and 0 where the mask has no bit: the
// integer part of x goes into the exponent, the rest through the polynomial of degree 4 with the
// least relative error on [-1/2, 1/2].
FOVEA_AVX512_INLINE __m512 short_exp2(__mmask16 mask, __m512 x) {
  // Added to it, what is left of x is its nearest integer, in the lowest bits.
  const auto shifter = _mm512_set1_ps(12582912.0f);  // 1.5 * 2^23
  const auto shifted = _mm512_add_ps(x, shifter);
  const auto f = _mm512_sub_ps(x, _mm512_sub_ps(shifted, shifter));
  auto sum = _mm512_set1_ps(0.009570103138685226f);
  sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(0.05591786280274391f));
  sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(0.240247443318367f));
  sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(0.6931217908859253f));
  sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(0.9999992847442627f));
  const auto exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_maskz_add_epi32(mask, _mm512_castps_si512(sum), exponent));
}

// Of a = |x|, at most 12.8: Phi(-a), the normal distribution function, which is 2 to the polynomial
// of degree 9 in a whose largest error on [0, 12.8] is least, 2.2e-5. From there on Phi(-a) is
// below the normal floats, which take Intel's processors a hundred cycles, and is 0.
struct GeluTail {
  __mmask16 is_within;
  __m512 a, below;
};
FOVEA_AVX512_INLINE GeluTail gelu_tail(__m512 x) {
  const auto most = _mm512_set1_ps(12.8f);
  // Of a NaN and a number the minimum is the second operand.
  const auto a = _mm512_min_ps(most, _mm512_abs_ps(x));
  const auto is_within = _mm512_cmp_ps_mask(a, most, _CMP_NGE_UQ);  // or a NaN
  auto sum = _mm512_set1_ps(-2.1045387654794467e-09f);
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(1.5034657963042264e-07f));
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(-4.732791239803191e-06f));
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(8.694826101418585e-05f));
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(-0.0010445320513099432f));
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(0.008765817619860172f));
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(-0.054189104586839676f));
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(-0.45851752161979675f));
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(-1.151105284690857f));
  sum = _mm512_fmadd_ps(sum, a, _mm512_set1_ps(-1.000022292137146f));
  return {is_within, a, short_exp2(is_within, sum)};
}

// x Phi(x) = max(x, 0) - |x| Phi(-|x|).
FOVEA_AVX512_INLINE __m512 gelu_of(__m512 x, const GeluTail& tail) {
  return _mm512_fnmadd_ps(tail.a, tail.below, _mm512_max_ps(x, _mm512_setzero_ps()));
}

// Of 32 values of bfloat16, rounded once.
FOVEA_AVX512_INLINE __m512i gelu_of(__m512i x) {
  const auto low = widen_half(x, 0), high = widen_half(x, 1);
  return round_to_bfloat16(gelu_of(low, gelu_tail(low)), gelu_of(high, gelu_tail(high)));
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#endif
