// AVX-512 with bfloat16 and AMX in C++, for any processor: SIMDe's functions under the names of the
// instructions, and those that it lacks. Kernels include it in place of <immintrin.h>.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace fovea::emulation {

template <class T, class Vector>
T lane(const Vector& vector, size_t i) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(&vector) + i * sizeof(T), sizeof(T));
  return value;
}
template <class T, class Vector>
void set_lane(Vector& vector, size_t i, T value) {
  std::memcpy(reinterpret_cast<char*>(&vector) + i * sizeof(T), &value, sizeof(T));
}

// Zeros where the mask has no bit: nothing is read there.
template <class Vector, class T, class Mask>
Vector load_masked(Mask mask, const void* from) {
  Vector to{};
  for (size_t i = 0; i < sizeof(Vector) / sizeof(T); ++i) {
    if (!(mask >> i & 1)) continue;
    T value;
    std::memcpy(&value, static_cast<const char*>(from) + i * sizeof(T), sizeof(T));
    set_lane(to, i, value);
  }
  return to;
}
template <class T, class Vector, class Mask>
void store_masked(void* to, Mask mask, const Vector& from) {
  for (size_t i = 0; i < sizeof(Vector) / sizeof(T); ++i) {
    if (!(mask >> i & 1)) continue;
    const auto value = lane<T>(from, i);
    std::memcpy(static_cast<char*>(to) + i * sizeof(T), &value, sizeof(T));
  }
}

inline __m512i widen(const __m256i& values) {
  __m512i to{};
  for (size_t i = 0; i < 16; ++i) set_lane<uint32_t>(to, i, lane<uint16_t>(values, i));
  return to;
}

// To the nearest even; a NaN stays one.
inline uint16_t round_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline __m512bh round_both(const __m512& high, const __m512& low) {
  __m512bh to{};
  for (size_t i = 0; i < 16; ++i) {
    set_lane(to, i, round_to_bfloat16(lane<float>(low, i)));
    set_lane(to, 16 + i, round_to_bfloat16(lane<float>(high, i)));
  }
  return to;
}

// To the nearest even, of numbers that 32 bits hold.
inline __m512i to_integers(const __m512& values) {
  __m512i to{};
  for (size_t i = 0; i < 16; ++i) {
    set_lane(to, i, static_cast<int32_t>(std::lrintf(lane<float>(values, i))));
  }
  return to;
}
inline __m512 to_floats(const __m512i& values) {
  __m512 to{};
  for (size_t i = 0; i < 16; ++i) set_lane(to, i, static_cast<float>(lane<int32_t>(values, i)));
  return to;
}

template <int kControl>
__m512 less_its_floor(const __m512& values) {
  static_assert(kControl == 1, "no other rounding is emulated");
  __m512 to{};
  for (size_t i = 0; i < 16; ++i) {
    const auto value = lane<float>(values, i);
    set_lane(to, i, std::isinf(value) ? 0.0f : value - std::floor(value));
  }
  return to;
}
inline __m512 scaled(const __m512& values, const __m512& exponents) {
  __m512 to{};
  for (size_t i = 0; i < 16; ++i) {
    set_lane(to, i, lane<float>(values, i) * std::exp2(std::floor(lane<float>(exponents, i))));
  }
  return to;
}

// By halves, as compilers do.
template <class Combine>
float reduce(__m512 values, const Combine& combine) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      set_lane(values, i, combine(lane<float>(values, i), lane<float>(values, i + half)));
    }
  }
  return lane<float>(values, 0);
}
inline float sum(const __m512& values) {
  return reduce(values, [](float a, float b) { return a + b; });
}
inline float largest(const __m512& values) {
  return reduce(values, [](float a, float b) { return std::max(a, b); });
}

// The eight tile registers of a thread, all of 16 rows of 64 bytes.
struct Tile {
  alignas(64) char rows[16][64];

  template <class T>
  T at(int row, int i) const {
    return lane<T>(rows[row], static_cast<size_t>(i));
  }
};
inline Tile& tile(int number) {
  thread_local Tile tiles[8];
  return tiles[number];
}
inline void load_tile(int to, const void* from, int64_t stride) {
  for (int row = 0; row < 16; ++row) {
    std::memcpy(tile(to).rows[row], static_cast<const char*>(from) + row * stride, 64);
  }
}
inline void store_tile(int from, void* to, int64_t stride) {
  for (int row = 0; row < 16; ++row) {
    std::memcpy(static_cast<char*>(to) + row * stride, tile(from).rows[row], 64);
  }
}
inline void clear_tile(int number) { tile(number) = {}; }

// sums += product of the first factor's pairs (or fours) with the second one's, column by column.
inline void multiply_bfloat16_tiles(int sums, int first, int second) {
  const auto value = [](const Tile& from, int row, int i) {
    return std::bit_cast<float>(uint32_t{from.at<uint16_t>(row, i)} << 16);
  };
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      auto sum = tile(sums).at<float>(row, column);
      for (int k = 0; k < 32; ++k) {
        sum += value(tile(first), row, k) * value(tile(second), k / 2, 2 * column + k % 2);
      }
      set_lane(tile(sums).rows[row], static_cast<size_t>(column), sum);
    }
  }
}
inline void multiply_int8_tiles(int sums, int first, int second) {
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      auto sum = tile(sums).at<int32_t>(row, column);
      for (int k = 0; k < 64; ++k) {
        sum += tile(first).at<uint8_t>(row, k) * tile(second).at<int8_t>(k / 4, 4 * column + k % 4);
      }
      set_lane(tile(sums).rows[row], static_cast<size_t>(column), sum);
    }
  }
}

}  // namespace fovea::emulation

#define _mm256_maskz_loadu_epi16(mask, p) fovea::emulation::load_masked<__m256i, uint16_t>(mask, p)
#define _mm512_maskz_loadu_epi16(mask, p) fovea::emulation::load_masked<__m512i, uint16_t>(mask, p)
#define _mm512_maskz_loadu_epi32(mask, p) fovea::emulation::load_masked<__m512i, int32_t>(mask, p)
#define _mm512_maskz_loadu_ps(mask, p) fovea::emulation::load_masked<__m512, float>(mask, p)
#define _mm512_mask_storeu_epi16(p, mask, v) fovea::emulation::store_masked<uint16_t>(p, mask, v)
#define _mm512_mask_storeu_ps(p, mask, v) fovea::emulation::store_masked<float>(p, mask, v)
#define _mm256_dpbusd_avx_epi32(sums, a, b) simde_mm256_dpbusd_epi32(sums, a, b)
#define _mm512_stream_si512(p, v) ((void)std::memcpy(p, &(v), 64))
#define _mm512_cvtepu16_epi32(v) fovea::emulation::widen(v)
#define _mm512_cvtne2ps_pbh(high, low) fovea::emulation::round_both(high, low)
#define _mm512_cvtps_epi32(v) fovea::emulation::to_integers(v)
#define _mm512_cvtepi32_ps(v) fovea::emulation::to_floats(v)
#define _mm512_reduce_ps(v, less_floor) fovea::emulation::less_its_floor<less_floor>(v)
#undef _mm512_scalef_ps
#define _mm512_scalef_ps(v, exponents) fovea::emulation::scaled(v, exponents)
#define _mm512_reduce_add_ps(v) fovea::emulation::sum(v)
#define _mm512_reduce_max_ps(v) fovea::emulation::largest(v)

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#undef _tile_loadconfig
#undef _tile_release
#define _tile_loadd(to, from, stride) fovea::emulation::load_tile(to, from, stride)
#define _tile_stored(from, to, stride) fovea::emulation::store_tile(from, to, stride)
#define _tile_zero(number) fovea::emulation::clear_tile(number)
#define _tile_dpbf16ps(sums, a, b) fovea::emulation::multiply_bfloat16_tiles(sums, a, b)
#define _tile_dpbusd(sums, a, b) fovea::emulation::multiply_int8_tiles(sums, a, b)
#define _tile_loadconfig(config) ((void)(config))
#define _tile_release() ((void)0)
