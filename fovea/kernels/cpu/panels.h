// Products of bfloat16 with float32 sums on AMX or AVX-512, and the layouts that they are taken
// from. bfloat16 values are their 16-bit patterns.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/coming_bytes.h"

namespace fovea::kernels::cpu {

// Note [Panels]
// A tile register of AMX holds 16 rows of 64 bytes. One instruction adds to 16 x 16 float32 sums
// the product of 16 x 32 bfloat16 of the first factor and 32 x 16 of the second one, of which a row
// holds pairs of values: of two neighbours in depth, for each of 16 columns. Four registers of sums
// make a block of 32 x 32, which takes as many loads as products: the best that eight registers
// give. AVX-512 takes the same layouts: a row of the second factor is a register, and a pair of the
// first one goes into all its lanes, which may as well be read from a row of a matrix as it lies.
//
// So factors are packed by lines, which are the rows of the first factor and the columns of the
// second one. 32 lines make a panel; a panel is packed step by step, 32 values deep, each of two
// tiles, 16 lines each. What is not there is zero. A product reads two panels from front to back.
// A step of a first factor is [32 lines, 32 deep], row after row.
inline constexpr int64_t kBlockSide = 32;     // lines of a panel, and depth of a step
inline constexpr int64_t kStepValues = 1024;  // of a panel
inline constexpr int64_t kTileRows = 16, kTileValues = kTileRows * kBlockSide;
inline constexpr int64_t kBlockValues = kBlockSide * kBlockSide;

// How many panels, or steps, `count` lines or values fill.
inline int64_t num_blocks(int64_t count) { return (count + kBlockSide - 1) / kBlockSide; }

// Whether this processor multiplies bfloat16: AVX-512 BF16, with or without AMX.
bool has_panel_products();

#ifndef __x86_64__
[[noreturn]] void refuse_panels();  // what follows, in a build for processors that have none
#endif

// Who multiplies panels.
enum class PanelUnit { kVectors, kTiles };
// Tiles where there is AMX.
PanelUnit best_panel_unit();

// What follows needs has_panel_products(). Around products: the unit is ready for a thread, and
// what was streamed is there when the scope ends. Numbers below the least normal one are zero
// inside, as products of bfloat16 have it anyway: softmax has many, each of which takes some
// processors a hundred cycles.
class PanelScope {
 public:
  explicit PanelScope(PanelUnit unit);
  ~PanelScope();
  PanelScope(const PanelScope&) = delete;
  PanelScope& operator=(const PanelScope&) = delete;
  PanelUnit unit() const { return unit_; }

 private:
  PanelUnit unit_;
  unsigned modes_ = 0;  // of the processor's arithmetic, before
};

// A factor where it lies, rows `stride` values apart. First: [rows, depth]; second: [depth,
// columns]; is_transposed: the other way round.
struct Factor {
  const uint16_t* data;
  int64_t stride;
  bool is_transposed = false;
  // How many values further on lies what is packed next, which packing asks memory for; 0: nothing.
  // Rows lie too far apart for the processor to see which ones come.
  int64_t ahead = 0;
};

// Packs lines [begin, begin + count), 32 at most, of which there are values in depth [first, first
// + depth). to: [num_blocks(depth), kStepValues], at a cache line; what is behind `count` lines may
// be left as it is.
void pack_first(const Factor& factor, int64_t begin, int64_t count, int64_t first, int64_t depth,
                uint16_t* to);
void pack_second(const Factor& factor, int64_t begin, int64_t count, int64_t first, int64_t depth,
                 uint16_t* to);

// sums: [lines] = (adds ? sums : 0) + the sum over depth of each of the first `lines` lines of a
// panel of a first factor.
void sum_lines(const uint16_t* panel, int64_t steps, int64_t lines, bool adds, float* sums);

// What is wanted of a product of two panels: sums over the first `depth` values, of the first
// `lines` lines with the first `columns` columns. All above 0.
struct PanelExtent {
  int64_t depth;
  int64_t lines = kBlockSide, columns = kBlockSide;
};

// The lines of a panel of a first factor: packed, or as rows of a matrix, which then are a multiple
// of rows_at_once() and as deep as steps are.
struct PanelLines {
  const uint16_t* data;
  int64_t stride = kBlockSide;  // from line to line
  int64_t step = kStepValues;   // from step to step
};
// Vectors multiply so many at once, or so many where there are more.
inline constexpr int64_t kLinesAtOnce = 8, kMostLinesAtOnce = 12;
inline int64_t rows_at_once(PanelUnit unit) {
  return unit == PanelUnit::kTiles ? kBlockSide : kLinesAtOnce;
}

// A packed panel of a second factor.
struct SecondPanel {
  const uint16_t* data;
  ComingBytes coming = {};
};

// block: [32, 32] = (adds ? block : 0) + the product of two panels. What is not wanted of it may be
// left as it is, so it may be anything; the rest of the last step in depth has to be zero in both.
// Sums are the same bits wherever lines lie.
void multiply_panels(const PanelScope& scope, const PanelLines& first, const SecondPanel& second,
                     const PanelExtent& extent, bool adds, float* block);
// The same of packed panels that lie one behind another and have `extent.columns` columns together:
// a block each, `block_values` values apart, whatever is in them before.
void multiply_by_panels(const PanelScope& scope, const PanelLines& first, const uint16_t* second,
                        const PanelExtent& extent, float* blocks, int64_t block_values);

// Where a block goes as bfloat16: its first `rows` rows and `columns` columns, rows `stride` values
// apart.
struct BlockTarget {
  uint16_t* data;
  int64_t stride;
  int64_t rows, columns;
  const float* row_factors = nullptr;  // [rows], multiplied first; null: 1
  const float* bias = nullptr;         // [columns], added then; null: 0
  // [rows, columns], added to what that is rounded to, and the sum rounded again; null: nothing.
  const uint16_t* residual = nullptr;
  int64_t residual_stride = 0;
  bool is_streamed = false;  // past the caches, where it lies so
  // Becomes GELU of what data becomes; lies as that does, and is all that is written where both are
  // the same. Null: not wanted.
  uint16_t* gelu = nullptr;
};
void store_block(const float* block, const BlockTarget& to);

// As float32, transposed if asked for; rows and columns are those of the target.
struct FloatBlockTarget {
  float* data;
  int64_t stride;
  int64_t rows, columns;
  bool is_transposed = false;
  bool is_streamed = false;  // past the caches, where it lies so
};
void store_block(const float* block, const FloatBlockTarget& to);

// Before a block's product: asks for what it will be written to and added to, which otherwise its
// rows would wait for, one behind another.
void ask_for(const BlockTarget& to);
void ask_for(const FloatBlockTarget& to);

}  // namespace fovea::kernels::cpu
