// Vectors of 16 floats, on processors that have AVX-512 and round to bfloat16 in one instruction.
#pragma once

// gcc 12 takes the undefined operands of its own intrinsics for ours (GCC bug 105593): around
// functions that use them.
#if defined(__GNUC__) && !defined(__clang__)
#define FOVEA_INTRINSICS_PUSH                                                          \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wuninitialized\"") \
      _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"")
#define FOVEA_INTRINSICS_POP _Pragma("GCC diagnostic pop")
#else
#define FOVEA_INTRINSICS_PUSH
#define FOVEA_INTRINSICS_POP
#endif

#ifdef __x86_64__

#include <array>
#include <bit>
#include <cstdint>

#include "fovea/kernels/cpu/coming_bytes.h"

// Of functions that are compiled for processors that have this, and must not be called on
// others. The tests of avx512_kernels compile them once more, for any.
#ifdef FOVEA_AVX512_EMULATION
#include FOVEA_AVX512_EMULATION
#define FOVEA_AVX512
#define FOVEA_AVX512_VNNI
#define FOVEA_AVX_VNNI
#define FOVEA_AVX2
#define FOVEA_AMX
#define FOVEA_AMX_INT8
#else
#include <immintrin.h>
#define FOVEA_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define FOVEA_AVX512_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define FOVEA_AVX_VNNI __attribute__((target("avx2,avxvnni")))
#define FOVEA_AVX2 __attribute__((target("avx2")))
#define FOVEA_AMX __attribute__((target("amx-tile,amx-bf16")))
#define FOVEA_AMX_INT8 __attribute__((target("amx-tile,amx-int8")))
#endif

// Of what loops do to each vector: a call would put all that they hold in registers into memory.
#define FOVEA_AVX512_INLINE __attribute__((always_inline)) FOVEA_AVX512 inline
#define FOVEA_AVX2_INLINE __attribute__((always_inline)) FOVEA_AVX2 inline

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {

// 2^(i/16), less the bits that i itself will add to it: its lowest bit is worth a sixteenth of an
// exponent's.
alignas(64) inline constexpr auto kSixteenthPowers = [] {
  constexpr float kPowers[16] = {1.0f,       1.0442737f, 1.0905077f, 1.1387886f,
                                 1.1892071f, 1.2418578f, 1.2968396f, 1.3542556f,
                                 1.4142135f, 1.4768262f, 1.5422108f, 1.6104903f,
                                 1.6817929f, 1.7562522f, 1.8340081f, 1.9152066f};
  std::array<int32_t, 16> bits = {};
  for (int i = 0; i < 16; ++i) bits[i] = std::bit_cast<int32_t>(kPowers[i]) - (i << 19);
  return bits;
}();

// 2^x: the nearest sixteenth of x by table and exponent, the rest through the polynomial of degree
// 2, with the constant term 1, that has the least relative error on [-1/32, 1/32], 5e-7 with
// rounding. 2^-126 for all below, as what is smaller takes Intel's processors a hundred cycles; a
// NaN stays one.
FOVEA_AVX512_INLINE __m512 exp2(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-126.0f), x);  // of a NaN and a number the second operand
  // Added to it, what is left of x is its nearest sixteenth, in the lowest bits.
  const auto shifter = _mm512_set1_ps(786432.0f);  // 1.5 * 2^19
  const auto shifted = _mm512_add_ps(x, shifter);
  const auto f = _mm512_sub_ps(x, _mm512_sub_ps(shifted, shifter));
  const auto sixteenths = _mm512_castps_si512(shifted);
  const auto near = _mm512_castsi512_ps(_mm512_add_epi32(
      _mm512_permutexvar_epi32(sixteenths, _mm512_load_si512(kSixteenthPowers.data())),
      _mm512_slli_epi32(sixteenths, 19)));
  const auto slope =
      _mm512_fmadd_ps(_mm512_set1_ps(0.2402264326810837f), f, _mm512_set1_ps(0.6931877136230469f));
  return _mm512_fmadd_ps(_mm512_mul_ps(near, f), slope, near);
}

// 32 values of bfloat16, rounded to the nearest even.
FOVEA_AVX512 inline __m512i round_to_bfloat16(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// The values `half` (0 or 1) of 32 of bfloat16.
FOVEA_AVX512 inline __m512 widen_half(__m512i values, int half) {
  const auto bits = half ? _mm512_extracti64x4_epi64(values, 1) : _mm512_castsi512_si256(values);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// A bit for each of the first `count` of 32 values, none below 0. Its lower half is of 16.
FOVEA_AVX512 inline __mmask32 first_values(int64_t count) {
  if (count <= 0) return 0;
  return count >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((uint64_t{1} << count) - 1);
}

// Results that leave the caches before someone reads them are written past those (is_streamed, at a
// cache line): otherwise the processor would read each line first. An _mm_sfence has to follow.
FOVEA_AVX512 inline void store(__m512i values, __mmask32 mask, bool is_streamed, uint16_t* to) {
  if (is_streamed && mask == ~__mmask32{0}) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), values);
  } else {
    _mm512_mask_storeu_epi16(to, mask, values);
  }
}

// Whether that is so of `count` values that one thread writes there.
inline bool goes_past_caches(const uint16_t* to, int64_t count) {
  constexpr int64_t kMostCachedValues = int64_t{1} << 18;
  return count > kMostCachedValues && reinterpret_cast<uintptr_t>(to) % 64 == 0;
}

// Asks for the line of memory `values` values behind `data`, which need not be there, to come into
// the second-level cache, or the first-level one (3).
template <int kLocality = 2>
FOVEA_ASKS_FOR_MEMORY void prefetch_ahead(const uint16_t* data, int64_t values) {
  const auto address = reinterpret_cast<uintptr_t>(data) + sizeof(*data) * values;
  __builtin_prefetch(reinterpret_cast<const void*>(address), /*rw=*/0, kLocality);
}

// 16 x 16 units of 32 bits.
FOVEA_AVX512 inline void transpose(__m512i (&rows)[16]) {
  __m512i other[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
  }
  constexpr int kEven = 0x88, kOdd = 0xDD;  // of the quarters of both operands
#pragma GCC unroll 2
  for (int half = 0; half < 16; half += 8) {
#pragma GCC unroll 4
    for (int i = half; i < half + 4; ++i) {
      other[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], kEven);
      other[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], kOdd);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    rows[i] = _mm512_shuffle_i32x4(other[i], other[i + 8], kEven);
    rows[i + 8] = _mm512_shuffle_i32x4(other[i], other[i + 8], kOdd);
  }
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#endif
