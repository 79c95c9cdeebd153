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
#define FOVEA_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define FOVEA_AVX512_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define FOVEA_AVX_VNNI __attribute__((target("avx2,avxvnni")))
#define FOVEA_AVX2 __attribute__((target("avx2")))
#define FOVEA_AMX __attribute__((target("amx-tile,amx-bf16")))
#define FOVEA_AMX_INT8 __attribute__((target("amx-tile,amx-int8")))
#endif

// Of what loops do to each vector: a call would put all that they hold in registers into memory.
#define FOVEA_AVX512_INLINED __attribute__((always_inline)) FOVEA_AVX512  // lambdas
#define FOVEA_AVX512_INLINE FOVEA_AVX512_INLINED inline
#define FOVEA_AVX2_INLINE __attribute__((always_inline)) FOVEA_AVX2 inline

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {

// 2^x = 2^floor(x) 2^f, the latter by the polynomial of degree 4 with the constant term 1 that has
// the least relative error on [0, 1), 3e-6 with rounding. 0 of minus infinity; a NaN stays one.
FOVEA_AVX512_INLINE __m512 exp2(__m512 x) {
  constexpr int kLessItsFloor = 1;
  const auto f = _mm512_reduce_ps(x, kLessItsFloor);
  auto power = _mm512_fmadd_ps(_mm512_set1_ps(0.013425154611468315f), f,
                               _mm512_set1_ps(0.0522453747689724f));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(0.24127855896949768f));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(0.6930451393127441f));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(power, x);
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
