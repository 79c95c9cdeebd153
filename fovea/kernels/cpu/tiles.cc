#include "fovea/kernels/cpu/tiles.h"

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512.h"
#include "fovea/kernels/cpu/panels.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

constexpr int kTileRowBytes = 64;

// The operand of LDTILECFG (Intel's manual of instructions).
struct alignas(64) TileConfig {
  uint8_t palette, start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
// All eight registers whole. Not a local of the function that uses it: the compiler believes that
// the instruction reads no more than the first bytes, and leaves out writing the rest.
constexpr TileConfig kWholeTiles = {
    .palette = 1,
    .start_row = 0,
    .reserved = {},
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

}  // namespace

FOVEA_AMX void configure_tiles() { _tile_loadconfig(&kWholeTiles); }

FOVEA_AMX void release_tiles() { _tile_release(); }

namespace {

// Note [Order of tiles]
// A register is filled for the next step as soon as the last product of this one has read it, one
// product or two before it is read again. Where another program has the core's other thread, loads
// of tiles and products did not run beside each other: filled right before they were read, a loop
// ran at 580 GFLOP/s, in this order at 660 (one thread of an Intel Xeon, Emerald Rapids).

// kHasBelow, kHasRight: whether the lines, or the columns, behind the first 16 are wanted.
template <bool kHasBelow, bool kHasRight>
FOVEA_AMX void multiply_in_tiles(const PanelLines& first, const SecondPanel& panel, int64_t steps,
                                 bool adds, float* block) {
  auto [second, coming] = panel;
  constexpr int kRow = kBlockSide * sizeof(float);
  const auto* lines = first.data;
  const int64_t row_bytes = first.stride * int64_t{sizeof(uint16_t)};
  const int64_t below_lines = kTileRows * first.stride;
  // The compiler's tile loads do not say that they read memory: what was stored has to be there.
  __asm__ volatile("" ::: "memory");
  float* const below = block + kTileRows * kBlockSide;
  if (adds) {
    _tile_loadd(0, block, kRow);
    if constexpr (kHasRight) _tile_loadd(1, block + kTileRows, kRow);
    if constexpr (kHasBelow) _tile_loadd(2, below, kRow);
    if constexpr (kHasBelow && kHasRight) _tile_loadd(3, below + kTileRows, kRow);
  } else {
    _tile_zero(0);
    if constexpr (kHasRight) _tile_zero(1);
    if constexpr (kHasBelow) _tile_zero(2);
    if constexpr (kHasBelow && kHasRight) _tile_zero(3);
  }
  _tile_loadd(4, lines, row_bytes);
  _tile_loadd(6, second, kTileRowBytes);
  if constexpr (kHasRight) _tile_loadd(7, second + kTileValues, kTileRowBytes);
  if constexpr (kHasBelow) _tile_loadd(5, lines + below_lines, row_bytes);
  for (int64_t left = steps - 1; left > 0; --left) {
    lines += first.step;
    second += kStepValues;
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kHasBelow) _tile_dpbf16ps(2, 5, 6);
    _tile_loadd(6, second, kTileRowBytes);
    if constexpr (kHasRight) _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(4, lines, row_bytes);
    if constexpr (kHasBelow && kHasRight) _tile_dpbf16ps(3, 5, 7);
    if constexpr (kHasBelow) _tile_loadd(5, lines + below_lines, row_bytes);
    if constexpr (kHasRight) _tile_loadd(7, second + kTileValues, kTileRowBytes);
    coming.bring<2>();
  }
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kHasBelow) _tile_dpbf16ps(2, 5, 6);
  if constexpr (kHasRight) _tile_dpbf16ps(1, 4, 7);
  if constexpr (kHasBelow && kHasRight) _tile_dpbf16ps(3, 5, 7);
  _tile_stored(0, block, kRow);
  if constexpr (kHasRight) _tile_stored(1, block + kTileRows, kRow);
  if constexpr (kHasBelow) _tile_stored(2, below, kRow);
  if constexpr (kHasBelow && kHasRight) _tile_stored(3, below + kTileRows, kRow);
}

}  // namespace

FOVEA_AMX void multiply_panels_in_tiles(const PanelLines& first, const SecondPanel& second,
                                        const PanelExtent& extent, bool adds, float* block) {
  const int64_t steps = num_blocks(extent.depth);
  if (extent.lines > kTileRows) {
    return extent.columns > kTileRows
               ? multiply_in_tiles<true, true>(first, second, steps, adds, block)
               : multiply_in_tiles<true, false>(first, second, steps, adds, block);
  }
  return extent.columns > kTileRows
             ? multiply_in_tiles<false, true>(first, second, steps, adds, block)
             : multiply_in_tiles<false, false>(first, second, steps, adds, block);
}

namespace {

// A tile of the strip is 16 groups of 16 columns, every other 64 bytes of it. See Note [Order of
// tiles]. kHasBelow: whether rows behind the first 16 are wanted.
template <bool kHasBelow>
FOVEA_AMX_INT8 void multiply_codes(const Int8Factors& factors, bool adds, int32_t* sums) {
  constexpr int64_t kSide = 32, kStripRow = 4 * kSide, kSumsRow = 4 * kSide;
  __asm__ volatile("" ::: "memory");  // as above
  int32_t* const below = sums + kInt8TileRows * kSide;
  const auto* rows = factors.rows;
  const auto* strip = factors.strip;
  const auto stride = factors.stride;
  auto coming = factors.coming;
  const uint8_t* second = rows + kInt8TileRows * stride;
  if (adds) {
    _tile_loadd(0, sums, kSumsRow);
    _tile_loadd(1, sums + kInt8TileRows, kSumsRow);
    if constexpr (kHasBelow) _tile_loadd(2, below, kSumsRow);
    if constexpr (kHasBelow) _tile_loadd(3, below + kInt8TileRows, kSumsRow);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kHasBelow) _tile_zero(2);
    if constexpr (kHasBelow) _tile_zero(3);
  }
  _tile_loadd(4, rows, stride);
  _tile_loadd(6, strip, kStripRow);
  _tile_loadd(7, strip + kTileRowBytes, kStripRow);
  if constexpr (kHasBelow) _tile_loadd(5, second, stride);
  for (int64_t left = factors.groups - kInt8GroupsOfStep; left > 0; left -= kInt8GroupsOfStep) {
    rows += kInt8TileDepth;
    second += kInt8TileDepth;
    strip += kInt8GroupsOfStep * kStripRow;
    _tile_dpbusd(0, 4, 6);
    if constexpr (kHasBelow) _tile_dpbusd(2, 5, 6);
    _tile_loadd(6, strip, kStripRow);
    _tile_dpbusd(1, 4, 7);
    _tile_loadd(4, rows, stride);
    if constexpr (kHasBelow) _tile_dpbusd(3, 5, 7);
    if constexpr (kHasBelow) _tile_loadd(5, second, stride);
    _tile_loadd(7, strip + kTileRowBytes, kStripRow);
    coming.bring<3>();
  }
  _tile_dpbusd(0, 4, 6);
  if constexpr (kHasBelow) _tile_dpbusd(2, 5, 6);
  _tile_dpbusd(1, 4, 7);
  if constexpr (kHasBelow) _tile_dpbusd(3, 5, 7);
  _tile_stored(0, sums, kSumsRow);
  _tile_stored(1, sums + kInt8TileRows, kSumsRow);
  if constexpr (kHasBelow) _tile_stored(2, below, kSumsRow);
  if constexpr (kHasBelow) _tile_stored(3, below + kInt8TileRows, kSumsRow);
}

}  // namespace

FOVEA_AMX_INT8 void multiply_int8_in_tiles(const Int8Factors& factors, bool adds, int32_t* sums) {
  return factors.wanted_rows > kInt8TileRows ? multiply_codes<true>(factors, adds, sums)
                                             : multiply_codes<false>(factors, adds, sums);
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#else

namespace fovea::kernels::cpu {
namespace {

[[noreturn]] void refuse_tiles() {
  fail("tile registers on a processor that has none; ask has_amx first");
}

}  // namespace

void configure_tiles() { refuse_tiles(); }
void release_tiles() { refuse_tiles(); }
void multiply_panels_in_tiles(const PanelLines&, const SecondPanel&, const PanelExtent&, bool,
                              float*) {
  refuse_tiles();
}
void multiply_int8_in_tiles(const Int8Factors&, bool, int32_t*) { refuse_tiles(); }

}  // namespace fovea::kernels::cpu

#endif
