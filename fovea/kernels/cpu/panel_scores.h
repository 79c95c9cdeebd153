// What attention on panels makes of scores, row by row: probabilities, and their gradients. N
// tokens in n panels; blocks and steps: see Note [Panels] in panels.h.
#pragma once

#include <cstdint>
#include <limits>
#include <numbers>

#include "fovea/kernels/cpu/avx512.h"
#include "fovea/kernels/cpu/panels.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {

inline constexpr auto kLog2OfE = std::numbers::log2e_v<float>;

FOVEA_AVX512 inline void store_rounded(__m512 low, __m512 high, uint16_t* to) {
  _mm512_store_si512(to, round_to_bfloat16(low, high));
}

// Which columns of a row's last block are there, of `N` in all.
struct LastBlock {
  __mmask16 low, high;
};
FOVEA_AVX512 inline LastBlock last_block(int64_t N) {
  const auto bits = first_values((N - 1) % kBlockSide + 1);
  return {static_cast<__mmask16>(bits), static_cast<__mmask16>(bits >> 16)};
}

// Scores of a few lines with all tokens: [n, lines, 32], a block behind another one.
struct ScoreLines {
  const float* data;
  int64_t block;  // values of each
  int64_t count;  // lines that are there
  const float* row(int64_t line) const { return data + line * kBlockSide; }
};

// Of a row of scores, multiplied by the scale: the largest, and the sum over all of powers of how
// much they are less than that.
struct RowSum {
  float total, largest;
};

FOVEA_AVX512_INLINE float largest_of_row(const float* row, int64_t block, int64_t N) {
  const auto last = last_block(N);
  const auto nothing = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  const auto* tail = row + (num_blocks(N) - 1) * block;
  auto low = _mm512_mask_mov_ps(nothing, last.low, _mm512_load_ps(tail));
  auto high = _mm512_mask_mov_ps(nothing, last.high, _mm512_load_ps(tail + 16));
  for (; row != tail; row += block) {
    low = _mm512_max_ps(low, _mm512_load_ps(row));
    high = _mm512_max_ps(high, _mm512_load_ps(row + 16));
  }
  return _mm512_reduce_max_ps(_mm512_max_ps(low, high));
}

// Scores to probabilities that are not divided by their sum yet, rounded, and these sums. rounded:
// lines of [n, step], with zeros in the padding. `N` columns of the scores are there. Sums of lanes
// are for the end, as is what depends on one: lines then go on side by side in the processor.
// before(line): called before each line.
template <class Before>
FOVEA_AVX512 void exponentiate(const ScoreLines& scores, int64_t N, float scale, uint16_t* rounded,
                               RowSum* sums, const Before& before) {
  const auto last = last_block(N);
  const auto to_base_2 = scale * kLog2OfE;
  const auto factor = _mm512_set1_ps(to_base_2);
  __m512 lanes[kBlockSide];
  for (int64_t line = 0; line < scores.count; ++line) {
    sums[line].largest = largest_of_row(scores.row(line), scores.block, N);
  }
  for (int64_t line = 0; line < scores.count; ++line, rounded += kBlockSide) {
    before(line);
    const auto offset = _mm512_set1_ps(sums[line].largest * to_base_2);
    const auto* row = scores.row(line);
    const auto* tail = row + (num_blocks(N) - 1) * scores.block;
    auto low_sum = _mm512_setzero_ps(), high_sum = low_sum;
    auto* to = rounded;
    const auto power = [&](const float* of) FOVEA_AVX512 {
      return exp2(_mm512_fmsub_ps(_mm512_load_ps(of), factor, offset));
    };
    for (; row != tail; row += scores.block, to += kStepValues) {
      const auto low = power(row), high = power(row + 16);
      low_sum = _mm512_add_ps(low_sum, low);
      high_sum = _mm512_add_ps(high_sum, high);
      store_rounded(low, high, to);
    }
    const auto low = _mm512_maskz_mov_ps(last.low, power(tail));
    const auto high = _mm512_maskz_mov_ps(last.high, power(tail + 16));
    lanes[line] = _mm512_add_ps(_mm512_add_ps(low_sum, low), _mm512_add_ps(high_sum, high));
    store_rounded(low, high, to);
  }
  for (int64_t line = 0; line < scores.count; ++line) {
    sums[line].total = _mm512_reduce_add_ps(lanes[line]);
    sums[line].largest *= scale;
  }
}

// What a row of transposed scores, one key's, is differentiated with: by query, padded.
struct Queries {
  const float* log_sums;  // to base 2
  const float* row_sums;  // of P dP over keys
};

// Of keys, a line each: scores and dP -> P and dS = P (dP - row sums) scale, rounded into lines of
// [n, step], of `N` queries, with zeros in the padding.
template <class Before>
FOVEA_AVX512 void differentiate(const ScoreLines& scores, const ScoreLines& dscores, int64_t N,
                                float scale, const Queries& queries, uint16_t* rounded,
                                uint16_t* drounded, const Before& before) {
  const auto last = last_block(N);
  const int64_t whole = num_blocks(N) - 1;
  const auto factor = _mm512_set1_ps(scale * kLog2OfE), scales = _mm512_set1_ps(scale);
  for (int64_t line = 0; line < scores.count; ++line) {
    before(line);
    const auto *row = scores.row(line), *drow = dscores.row(line);
    const auto differentiate_block = [&](int64_t i, LastBlock there) FOVEA_AVX512 {
      __m512 p[2], ds[2];
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int64_t at = i * scores.block + 16 * half, query = i * kBlockSide + 16 * half;
        const auto mask = half == 0 ? there.low : there.high;
        p[half] = _mm512_maskz_mov_ps(
            mask, exp2(_mm512_fmsub_ps(_mm512_load_ps(row + at), factor,
                                       _mm512_load_ps(queries.log_sums + query))));
        const auto rest =
            _mm512_sub_ps(_mm512_load_ps(drow + at), _mm512_load_ps(queries.row_sums + query));
        ds[half] = _mm512_maskz_mul_ps(mask, _mm512_mul_ps(p[half], scales), rest);
      }
      store_rounded(p[0], p[1], rounded + line * kBlockSide + i * kStepValues);
      store_rounded(ds[0], ds[1], drounded + line * kBlockSide + i * kStepValues);
    };
    for (int64_t i = 0; i < whole; ++i) differentiate_block(i, {0xFFFF, 0xFFFF});
    differentiate_block(whole, last);
  }
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#endif
