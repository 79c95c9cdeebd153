#include "fovea/kernels/cpu/panels.h"

#include <algorithm>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512.h"
#include "fovea/kernels/cpu/processor.h"
#include "fovea/kernels/cpu/tiles.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

constexpr int kFewLines = 6;  // of the last block, if there are no more: as of a ViT's 197

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
// brings. So are sums of the next lines, where they go on: a line lies behind the one before.
template <int kLines, bool kIsWhole, bool kIsPacked, bool kAdds>
FOVEA_AVX512 inline void multiply_lines(const PanelLines& first, const uint16_t* second,
                                        int64_t depth, const ComingBytes& to_come, float* block) {
  // Known to the compiler where lines are packed: those products took longer otherwise.
  const int64_t stride = kIsPacked ? kBlockSide : first.stride;
  const int64_t step = kIsPacked ? kStepValues : first.step;
  const uint16_t* lines = first.data;
  auto coming = to_come;
  const int64_t ahead = kIsPacked ? 0 : kLines;
  const float* coming_sums = block + kLines * kBlockSide;
  __m512 low[kLines], high[kLines];
#pragma GCC unroll 12
  for (int i = 0; i < kLines; ++i) {
    low[i] = kAdds ? _mm512_load_ps(block + i * kBlockSide) : _mm512_setzero_ps();
    high[i] = kAdds && kIsWhole ? _mm512_load_ps(block + i * kBlockSide + 16) : _mm512_setzero_ps();
  }
  for (; depth > 0; depth -= kBlockSide, lines += step, second += kStepValues) {
    const int64_t values = std::min(depth, kBlockSide);
    for (int64_t i = ahead; i < 2 * ahead; ++i) {
      prefetch_ahead<3>(lines, i * stride);
    }
    coming.bring<2>();
    if constexpr (kAdds) {
      __builtin_prefetch(coming_sums);
      __builtin_prefetch(coming_sums + 16);
      coming_sums += kBlockSide;
    }
    for (int64_t pair = 0; pair < values; pair += 2) {
      const auto b0 = load_bfloat16(second + 16 * pair);
      const auto b1 = load_bfloat16(second + (kIsWhole ? kTileValues : 0) + 16 * pair);
#pragma GCC unroll 12
      for (int i = 0; i < kLines; ++i) {
        const auto a = broadcast_pair(lines + i * stride + pair);
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

}  // namespace

bool has_panel_products() { return has_avx512_bfloat16(); }

PanelScope::PanelScope(PanelUnit unit) : unit_(unit), modes_(_mm_getcsr()) {
  constexpr unsigned kTakeAsZero = 1 << 6, kGiveZero = 1 << 15;
  _mm_setcsr(modes_ | kTakeAsZero | kGiveZero);
  if (unit_ == PanelUnit::kTiles) configure_tiles();
}

PanelScope::~PanelScope() {
  _mm_sfence();  // what was streamed is there before anything that follows
  if (unit_ == PanelUnit::kTiles) release_tiles();
  _mm_setcsr(modes_);
}

namespace {

template <int kLines, bool kAdds>
auto* lines_function(bool is_packed, bool is_whole) {
  if (is_whole) {
    return is_packed ? multiply_lines<kLines, true, true, kAdds>
                     : multiply_lines<kLines, true, false, kAdds>;
  }
  return is_packed ? multiply_lines<kLines, false, true, kAdds>
                   : multiply_lines<kLines, false, false, kAdds>;
}
template <bool kAdds>
auto* lines_function(int64_t lines, const PanelLines& first, int64_t columns) {
  const bool is_packed = first.stride == kBlockSide && first.step == kStepValues;
  const bool is_whole = columns > kTileRows;
  if (lines == kMostLinesAtOnce) {
    return lines_function<kMostLinesAtOnce, kAdds>(is_packed, is_whole);
  }
  return lines == kLinesAtOnce ? lines_function<kLinesAtOnce, kAdds>(is_packed, is_whole)
                               : lines_function<kFewLines, kAdds>(is_packed, is_whole);
}

// How many of the `left` lines come next: as few as there are, and longer blocks where those take
// no more in all.
int64_t lines_of_next(int64_t left) {
  if (left >= kMostLinesAtOnce + kLinesAtOnce) return kMostLinesAtOnce;
  if (left > kMostLinesAtOnce) return kLinesAtOnce;
  if (left > kLinesAtOnce) return kMostLinesAtOnce;
  return left > kFewLines ? kLinesAtOnce : kFewLines;
}

// What lines are called with stands in memory, where it is read number by number: read as two at
// once, right behind having been written one by one, it would have to wait for the caches.
void multiply_panels_in_vectors(const PanelLines& first, const SecondPanel& second,
                                const PanelExtent& extent, bool adds, float* block) {
  auto coming = second.coming;
  auto some = first;
  for (int64_t left = extent.lines; left > 0;) {
    const auto lines = lines_of_next(left);
    const auto multiply = adds ? lines_function<true>(lines, first, extent.columns)
                               : lines_function<false>(lines, first, extent.columns);
    multiply(some, second.data, extent.depth, coming, block);
    coming.pass(num_blocks(extent.depth));
    some.data += lines * some.stride;
    block += lines * kBlockSide;
    left -= lines;
  }
}

// Lines by lines, which are chosen for once: of a depth of 64 that is a twentieth of the time.
void multiply_by_panels_in_vectors(const PanelLines& first, const uint16_t* second,
                                   const PanelExtent& extent, float* blocks, int64_t block_values) {
  const int64_t panel_values = num_blocks(extent.depth) * kStepValues;
  const int64_t last = num_blocks(extent.columns) - 1;
  auto some = first;
  for (int64_t left = extent.lines; left > 0;) {
    const auto lines = lines_of_next(left);
    const auto multiply = lines_function<false>(lines, first, kBlockSide);
    const auto multiply_last =
        lines_function<false>(lines, first, extent.columns - last * kBlockSide);
    for (int64_t panel = 0; panel <= last; ++panel) {
      (panel < last ? multiply : multiply_last)(some, second + panel * panel_values, extent.depth,
                                                {}, blocks + panel * block_values);
    }
    some.data += lines * some.stride;
    blocks += lines * kBlockSide;
    left -= lines;
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
void multiply_by_panels_in_vectors(const PanelLines&, const uint16_t*, const PanelExtent&, float*,
                                   int64_t) {
  refuse_panels();
}

}  // namespace

bool has_panel_products() { return false; }
PanelScope::PanelScope(PanelUnit unit) : unit_(unit) { refuse_panels(); }
PanelScope::~PanelScope() = default;
void sum_lines(const uint16_t*, int64_t, int64_t, bool, float*) { refuse_panels(); }

}  // namespace fovea::kernels::cpu

#endif

namespace fovea::kernels::cpu {

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

void multiply_by_panels(const PanelScope& scope, const PanelLines& first, const uint16_t* second,
                        const PanelExtent& extent, float* blocks, int64_t block_values) {
  if (scope.unit() == PanelUnit::kVectors) {
    return multiply_by_panels_in_vectors(first, second, extent, blocks, block_values);
  }
  auto part = extent;
  for (int64_t left = extent.columns; left > 0; left -= kBlockSide) {
    part.columns = std::min(kBlockSide, left);
    multiply_panels_in_tiles(first, {second}, part, /*adds=*/false, blocks);
    second += num_blocks(extent.depth) * kStepValues;
    blocks += block_values;
  }
}

}  // namespace fovea::kernels::cpu
