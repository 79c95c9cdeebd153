// What a block of sums becomes, and where.
#include <algorithm>
#include <array>
#include <utility>

#include "fovea/kernels/cpu/avx512_gelu.h"
#include "fovea/kernels/cpu/panels.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

// values + residual, where the mask has a bit.
FOVEA_AVX512 inline __m512i add_rounded(__m512i values, __mmask32 mask, const uint16_t* residual) {
  const auto added = _mm512_maskz_loadu_epi16(mask, residual);
  return round_to_bfloat16(_mm512_add_ps(widen_half(values, 0), widen_half(added, 0)),
                           _mm512_add_ps(widen_half(values, 1), widen_half(added, 1)));
}

// What a block's rows take, in whatever combination.
constexpr unsigned kFactors = 1, kResidual = 2, kGelu = 4, kCombinations = 8;

// Each combination is compiled for itself, and `target` copied to where no store can change it:
// what is asked anew in each row takes twice as long as storing it.
template <unsigned kWith>
FOVEA_AVX512 void store_rows(const float* block, const BlockTarget& target) {
  const auto to = target;
  const auto mask = first_values(to.columns);
  const bool is_streamed = to.is_streamed && to.columns >= kBlockSide &&
                           to.stride % kBlockSide == 0 &&
                           reinterpret_cast<uintptr_t>(to.data) % 64 == 0 &&
                           reinterpret_cast<uintptr_t>(to.gelu) % 64 == 0;
  const bool is_data_stored = !(kWith & kGelu) || to.data != to.gelu;
  auto low_bias = _mm512_setzero_ps(), high_bias = low_bias;
  if (to.bias) {
    low_bias = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), to.bias);
    high_bias = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), to.bias + 16);
  }
  for (int64_t i = 0; i < to.rows; ++i, block += kBlockSide) {
    auto low = _mm512_load_ps(block), high = _mm512_load_ps(block + 16);
    if constexpr (kWith & kFactors) {
      const auto factor = _mm512_set1_ps(to.row_factors[i]);
      low = _mm512_fmadd_ps(low, factor, low_bias);
      high = _mm512_fmadd_ps(high, factor, high_bias);
    } else {
      low = _mm512_add_ps(low, low_bias);
      high = _mm512_add_ps(high, high_bias);
    }
    auto rounded = round_to_bfloat16(low, high);
    if constexpr (kWith & kResidual) {
      rounded = add_rounded(rounded, mask, to.residual + i * to.residual_stride);
    }
    if (is_data_stored) store(rounded, mask, is_streamed, to.data + i * to.stride);
    if constexpr (kWith & kGelu) {
      store(gelu_of(rounded), mask, is_streamed, to.gelu + i * to.stride);
    }
  }
}

template <unsigned... kWith>
constexpr auto store_functions(std::integer_sequence<unsigned, kWith...>) {
  return std::array{store_rows<kWith>...};
}

}  // namespace

void store_block(const float* block, const BlockTarget& to) {
  static constexpr auto kStores =
      store_functions(std::make_integer_sequence<unsigned, kCombinations>());
  const unsigned with =
      (to.row_factors ? kFactors : 0) | (to.residual ? kResidual : 0) | (to.gelu ? kGelu : 0);
  kStores[with](block, to);
}

FOVEA_AVX512 void store_block(const float* block, const FloatBlockTarget& to) {
  const bool is_streamed = to.is_streamed && to.columns >= kBlockSide && to.stride % 16 == 0 &&
                           reinterpret_cast<uintptr_t>(to.data) % 64 == 0;
  for (int64_t row = 0; row < kBlockSide; row += kTileRows) {
    for (int64_t column = 0; column < kBlockSide; column += kTileRows) {
      __m512i values[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        values[i] = _mm512_load_si512(block + (row + i) * kBlockSide + column);
      }
      if (to.is_transposed) transpose(values);
      const auto down = to.is_transposed ? column : row, across = row + column - down;
      const auto mask = static_cast<__mmask16>(first_values(to.columns - across));
      const auto count = std::clamp<int64_t>(to.rows - down, 0, 16);
      for (int i = 0; i < count; ++i) {
        auto* target = to.data + (down + i) * to.stride + across;
        if (is_streamed) {
          _mm512_stream_si512(reinterpret_cast<__m512i*>(target), values[i]);
        } else {
          _mm512_mask_storeu_ps(target, mask, _mm512_castsi512_ps(values[i]));
        }
      }
    }
  }
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#else

namespace fovea::kernels::cpu {

void store_block(const float*, const BlockTarget&) { refuse_panels(); }
void store_block(const float*, const FloatBlockTarget&) { refuse_panels(); }

}  // namespace fovea::kernels::cpu

#endif

namespace fovea::kernels::cpu {

void ask_for(const BlockTarget& to) {
  const bool is_data_cached = !to.is_streamed && to.data != to.gelu;
  const bool is_gelu_cached = !to.is_streamed && to.gelu != nullptr;
  for (int64_t i = 0; i < to.rows; ++i) {
    if (to.residual) ask_for_row<false, 2>(to.residual + i * to.residual_stride, to.columns);
    if (is_data_cached) ask_for_row<true>(to.data + i * to.stride, to.columns);
    if (is_gelu_cached) ask_for_row<true>(to.gelu + i * to.stride, to.columns);
  }
}

void ask_for(const FloatBlockTarget& to) {
  if (to.is_streamed) return;
  for (int64_t i = 0; i < to.rows; ++i) ask_for_row<true>(to.data + i * to.stride, to.columns);
}

}  // namespace fovea::kernels::cpu
