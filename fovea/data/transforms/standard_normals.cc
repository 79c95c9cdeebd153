#include "fovea/data/transforms/standard_normals.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

constexpr int64_t kLanes = 64;  // Philox blocks done at a time

struct Group {
  uint32_t words[4][kLanes];
  float normals[4][kLanes];
};

// Free of branches and tables, and choices made on bits, so that loops over them are vectorised.
// Polynomials of Cephes' logf, sinf and cosf (Moshier 1992), good to a few units in the last place
// of a float. The builtin casts are never calls.

// x in (0, 1).
[[gnu::always_inline]] inline float log_of_unit(float x) {
  const auto bits = __builtin_bit_cast(int32_t, x);
  const int32_t half = (bits & 0x007fffff) | 0x3f000000;  // in [0.5, 1)
  const int32_t is_small = half < 0x3f3504f3 ? 1 : 0;     // below sqrt(1/2): doubled
  const auto exponent = static_cast<float>((bits >> 23) - 126 - is_small);
  const float m = __builtin_bit_cast(float, half + (is_small << 23)) - 1.0f;
  const float z = m * m;
  float y = 7.0376836292e-2f;
  y = y * m - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  y = y * m * z - 2.12194440e-4f * exponent - 0.5f * z;
  return m + y + 0.693359375f * exponent;
}

struct SineCosine {
  float sine;
  float cosine;
};

// Of `turns` whole circles, in [0, 1).
[[gnu::always_inline]] inline SineCosine sine_cosine(float turns) {
  const auto quarter = static_cast<int32_t>(4.0f * turns + 0.5f);
  const float a = 2.0f * std::numbers::pi_v<float> * (turns - 0.25f * static_cast<float>(quarter));
  const float z = a * a;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * a + a;
  const float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
      0.5f * z + 1.0f;
  const auto s_bits = __builtin_bit_cast(uint32_t, s);
  const auto c_bits = __builtin_bit_cast(uint32_t, c);
  const auto turned = static_cast<uint32_t>(quarter);
  const uint32_t swap = (s_bits ^ c_bits) & (0u - (turned & 1));  // in odd quarters
  const uint32_t sine = (s_bits ^ swap) ^ ((turned & 2) << 30);
  const uint32_t cosine = (c_bits ^ swap) ^ (((turned + 1) & 2) << 30);
  return {__builtin_bit_cast(float, sine), __builtin_bit_cast(float, cosine)};
}

[[gnu::flatten]] FOVEA_SIMD void fill_words(uint64_t first_block, PhiloxKey key, Group& group) {
#pragma omp simd
  for (int64_t i = 0; i < kLanes; ++i) {
    const uint64_t block = first_block + static_cast<uint64_t>(i);
    const PhiloxCounter words =
        philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, key);
    for (size_t word = 0; word < 4; ++word) group.words[word][i] = words[word];
  }
}

[[gnu::flatten]] FOVEA_SIMD void fill_normals(Group& group) {
  for (int64_t pair = 0; pair < 4; pair += 2) {
#pragma omp simd
    for (int64_t i = 0; i < kLanes; ++i) {
      const auto high_bits = static_cast<int32_t>(group.words[pair][i] >> 9);
      const float uniform = (static_cast<float>(high_bits) + 0.5f) * 0x1p-23f;
      const float turns =
          static_cast<float>(static_cast<int32_t>(group.words[pair + 1][i] >> 8)) * 0x1p-24f;
      const float radius = std::sqrt(-2.0f * log_of_unit(uniform));
      const SineCosine direction = sine_cosine(turns);
      group.normals[pair][i] = radius * direction.cosine;
      group.normals[pair + 1][i] = radius * direction.sine;
    }
  }
}

FOVEA_SIMD void add_scaled(const float* normals, float mean, float std, int64_t count,
                           float* __restrict values) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] += mean + std * normals[i];
}

}  // namespace

void add_standard_normals(PhiloxKey key, float mean, float std, std::span<float> values) {
  Group group;
  constexpr int64_t kGroup = 4 * kLanes;
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t start = 0; start < count; start += kGroup) {
    fill_words(static_cast<uint64_t>(start / 4), key, group);
    fill_normals(group);
    add_scaled(group.normals[0], mean, std, std::min(kGroup, count - start), values.data() + start);
  }
}

}  // namespace fovea::data
