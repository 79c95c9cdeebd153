#include "fovea/kernels/cpu/panels.h"

#include <algorithm>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512_gelu.h"
#include "fovea/kernels/cpu/processor.h"
#include "fovea/kernels/cpu/tiles.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

FOVEA_AVX512 inline __m512bh load_bfloat16(const uint16_t* data) {
  return reinterpret_cast<__m512bh>(_mm512_load_si512(data));
}

// The same two values in each pair of lanes.
FOVEA_AVX512 inline __m512bh broadcast_pair(const uint16_t* data) {
  int32_t pair;
  std::memcpy(&pair, data, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

// Lines of a first factor against a panel of a second one, or its first half, in as many or twice
// as many registers of sums: the more, the less a sum waits for the one before. Of lines that are
// not packed the next ones are asked for; for packed ones, which are near, that costs more than it
// brings.
template <int kLines, bool kIsWhole, bool kIsPacked>
FOVEA_AVX512 inline void multiply_lines(PanelLines first, const uint16_t* second, int64_t depth,
                                        bool adds, ComingBytes coming, float* block) {
  // Known to the compiler where lines are packed: those products took longer otherwise.
  const int64_t stride = kIsPacked ? kBlockSide : first.stride;
  const int64_t step = kIsPacked ? kStepValues : first.step;
  const int64_t ahead = kIsPacked ? 0 : kLines;
  __m512 low[kLines], high[kLines];
#pragma GCC unroll 12
  for (int i = 0; i < kLines; ++i) {
    low[i] = adds ? _mm512_load_ps(block + i * kBlockSide) : _mm512_setzero_ps();
    high[i] = adds && kIsWhole ? _mm512_load_ps(block + i * kBlockSide + 16) : _mm512_setzero_ps();
  }
  for (; depth > 0; depth -= kBlockSide, first.data += step, second += kStepValues) {
    const int64_t values = std::min(depth, kBlockSide);
    for (int64_t i = ahead; i < 2 * ahead; ++i) {
      prefetch_ahead<3>(first.data, i * stride);
    }
    coming.bring<2>();
    for (int64_t pair = 0; pair < values; pair += 2) {
      const auto b0 = load_bfloat16(second + 16 * pair);
      const auto b1 = load_bfloat16(second + (kIsWhole ? kTileValues : 0) + 16 * pair);
#pragma GCC unroll 12
      for (int i = 0; i < kLines; ++i) {
        const auto a = broadcast_pair(first.data + i * stride + pair);
        low[i] = _mm512_dpbf16_ps(low[i], a, b0);
        if constexpr (kIsWhole) high[i] = _mm512_dpbf16_ps(high[i], a, b1);
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kLines; ++i) {
    _mm512_store_ps(block + i * kBlockSide, low[i]);
    if constexpr (kIsWhole) _mm512_store_ps(block + i * kBlockSide + 16, high[i]);
  }
}

// values + residual, where the mask has a bit.
FOVEA_AVX512 inline __m512i add_rounded(__m512i values, __mmask32 mask, const uint16_t* residual) {
  const auto added = _mm512_maskz_loadu_epi16(mask, residual);
  return round_to_bfloat16(_mm512_add_ps(widen_half(values, 0), widen_half(added, 0)),
                           _mm512_add_ps(widen_half(values, 1), widen_half(added, 1)));
}

}  // namespace

bool has_panel_products() { return has_avx512_bfloat16(); }

PanelScope::PanelScope(PanelUnit unit) : unit_(unit) {
  if (unit_ == PanelUnit::kTiles) configure_tiles();
}

PanelScope::~PanelScope() {
  _mm_sfence();  // what was streamed is there before anything that follows
  if (unit_ == PanelUnit::kTiles) release_tiles();
}

namespace {

template <int kLines>
auto* lines_function(const PanelLines& first, const PanelExtent& extent) {
  const bool is_packed = first.stride == kBlockSide && first.step == kStepValues;
  if (extent.columns > kTileRows) {
    return is_packed ? multiply_lines<kLines, true, true> : multiply_lines<kLines, true, false>;
  }
  return is_packed ? multiply_lines<kLines, false, true> : multiply_lines<kLines, false, false>;
}

void multiply_panels_in_vectors(const PanelLines& first, const SecondPanel& second,
                                const PanelExtent& extent, bool adds, float* block) {
  constexpr int kMany = 12, kFew = kLinesAtOnce;
  const auto many = lines_function<kMany>(first, extent), few = lines_function<kFew>(first, extent);
  const int64_t lines = (extent.lines + kFew - 1) / kFew * kFew;  // a block has room for them
  auto coming = second.coming;
  for (int64_t line = 0; line < lines;) {
    const auto left = lines - line;
    const bool takes_many = left >= kMany + kFew || left == kMany;
    (takes_many ? many : few)({first.data + line * first.stride, first.stride, first.step},
                              second.data, extent.depth, adds, coming, block + line * kBlockSide);
    coming.pass(num_blocks(extent.depth));
    line += takes_many ? kMany : kFew;
  }
}

}  // namespace

FOVEA_AVX512 void sum_lines(const uint16_t* panel, int64_t steps, int64_t lines, bool adds,
                            float* sums) {
  constexpr int32_t kTwoOnes = 0x3F803F80;
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi32(kTwoOnes));
  for (int64_t line = 0; line < lines; line += kLinesAtOnce) {
    __m512 parts[kLinesAtOnce];
    for (auto& part : parts) part = _mm512_setzero_ps();
    for (int64_t step = 0; step < steps; ++step) {
      const auto* from = panel + step * kStepValues + line * kBlockSide;
#pragma GCC unroll 8
      for (int i = 0; i < kLinesAtOnce; ++i) {
        parts[i] = _mm512_dpbf16_ps(parts[i], load_bfloat16(from + i * kBlockSide), ones);
      }
    }
    for (int64_t i = 0; i < std::min<int64_t>(kLinesAtOnce, lines - line); ++i) {
      sums[line + i] = (adds ? sums[line + i] : 0.0f) + _mm512_reduce_add_ps(parts[i]);
    }
  }
}

FOVEA_AVX512 void store_block(const float* block, const BlockTarget& to) {
  const auto mask = first_values(to.columns);
  const bool is_streamed = to.is_streamed && to.columns >= kBlockSide &&
                           to.stride % kBlockSide == 0 &&
                           reinterpret_cast<uintptr_t>(to.data) % 64 == 0 &&
                           reinterpret_cast<uintptr_t>(to.gelu) % 64 == 0;
  const auto* bias = to.bias;
  const auto low_bias =
      bias ? _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), bias) : _mm512_setzero_ps();
  const auto high_bias = bias ? _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), bias + 16)
                              : _mm512_setzero_ps();
  for (int64_t i = 0; i < to.rows; ++i, block += kBlockSide) {
    const auto factor = _mm512_set1_ps(to.row_factors ? to.row_factors[i] : 1.0f);
    const auto low = _mm512_fmadd_ps(_mm512_load_ps(block), factor, low_bias);
    const auto high = _mm512_fmadd_ps(_mm512_load_ps(block + 16), factor, high_bias);
    auto rounded = round_to_bfloat16(low, high);
    if (to.residual) rounded = add_rounded(rounded, mask, to.residual + i * to.residual_stride);
    if (to.data != to.gelu) store(rounded, mask, is_streamed, to.data + i * to.stride);
    if (to.gelu) store(gelu_of(rounded), mask, is_streamed, to.gelu + i * to.stride);
  }
}

FOVEA_AVX512 void store_block(const float* block, const FloatBlockTarget& to) {
  const bool is_streamed = to.is_streamed && to.columns >= kBlockSide && to.stride % 16 == 0 &&
                           reinterpret_cast<uintptr_t>(to.data) % 64 == 0;
  for (int64_t row = 0; row < kBlockSide; row += kTileRows) {
    for (int64_t column = 0; column < kBlockSide; column += kTileRows) {
      __m512i values[16];
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

void refuse_panels() {
  fail("panels of bfloat16 on a processor that has no AVX-512 BF16; ask has_panel_products first");
}

namespace {

void multiply_panels_in_vectors(const PanelLines&, const SecondPanel&, const PanelExtent&, bool,
                                float*) {
  refuse_panels();
}

}  // namespace

bool has_panel_products() { return false; }
PanelScope::PanelScope(PanelUnit unit) : unit_(unit) { refuse_panels(); }
PanelScope::~PanelScope() = default;
void sum_lines(const uint16_t*, int64_t, int64_t, bool, float*) { refuse_panels(); }
void store_block(const float*, const BlockTarget&) { refuse_panels(); }
void store_block(const float*, const FloatBlockTarget&) { refuse_panels(); }

}  // namespace fovea::kernels::cpu

#endif

namespace fovea::kernels::cpu {

void prefetch_residual(const BlockTarget& to) {
  if (!to.residual) return;
  for (int64_t i = 0; i < to.rows; ++i) {
    __builtin_prefetch(to.residual + i * to.residual_stride, /*rw=*/0, /*locality=*/2);
  }
}

PanelUnit best_panel_unit() { return has_amx() ? PanelUnit::kTiles : PanelUnit::kVectors; }

void multiply_panels(const PanelScope& scope, const PanelLines& first, const SecondPanel& second,
                     const PanelExtent& extent, bool adds, float* block) {
  switch (scope.unit()) {
    case PanelUnit::kVectors:
      return multiply_panels_in_vectors(first, second, extent, adds, block);
    case PanelUnit::kTiles:
      return multiply_panels_in_tiles(first, second, extent, adds, block);
  }
}

}  // namespace fovea::kernels::cpu
