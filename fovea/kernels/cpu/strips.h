// Products of float32 in the calling thread, of factors that are packed so that the processor reads
// them from front to back. small_product.inc has the loops that this and attention share.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// Note [Strips]
// The columns of a second factor [depth, columns] are packed by strips, as many as two vectors hold
// or, of AVX-512, four (AVX2: 16, AVX-512: 64): [strips, strip_depth(depth), strip_width()], what
// is not there zero. The rows of the first factor come in blocks whose sums, with those columns,
// stand in registers (block_rows(): 6). A block is read where it lies, value by value in each of
// its rows, or packed (pack_blocks): of a factor that is stored transposed, and of the last rows
// where they are fewer.
//
// A sum begins at its bias and is taken in the order of the inner dim, whatever it is cut into, so
// threads and cuts do not change its bits.
int64_t strip_width();
int64_t block_rows();
inline int64_t strip_depth(int64_t depth) { return (depth + 3) / 4 * 4; }

// A factor where it lies, rows `stride` values apart. First: [rows, depth]; second: [depth,
// columns]; is_transposed: the other way round.
struct FloatFactor {
  const float* data;
  int64_t stride;
  bool is_transposed;
  const uint16_t* bits = nullptr;  // of bfloat16, in place of data: not transposed
};

struct StripRange {
  int64_t begin, count;
};

// Packs a strip of a second factor: the columns `columns`, strip_width() of them at most, and of
// those the values `depth`. to: [strip_depth(depth.count), strip_width()], where the rows behind
// depth.count may be written, if the factor is transposed.
void pack_strip(const FloatFactor& second, const StripRange& columns, const StripRange& depth,
                float* to);

// How many rows of a first factor are packed side by side, whole blocks: of a transposed one as
// many as are copied at a time.
int64_t packed_together(const FloatFactor& first);
// Packs the rows `rows` of a first factor. to: [parts, depth.count, packed_together(first)], what
// is not there zero.
void pack_blocks(const FloatFactor& first, const StripRange& rows, const StripRange& depth,
                 float* to);

// Rows of a first factor: whole blocks where they lie, the others packed.
struct BlocksOfRows {
  const float* rows = nullptr;  // null: all are packed
  int64_t stride = 0;
  const float* packed = nullptr;  // those that rows has not, as pack_blocks packs them
  int64_t packed_together = 0;
  int64_t count = 0;  // of rows, all together
};

// Rows of values that lie `stride` apart; 0: one row for all.
struct FloatRows {
  const float* data;
  int64_t stride;
};

// to = from + first * strip, of `columns` columns. from: what the sums begin with. What is done
// once they are whole, unless it is null: residual is added, or gelu becomes x Phi(x) of them
// (gelu.inc), which may be `to`.
struct StripSums {
  FloatRows from;
  float* to;
  int64_t stride;  // of both
  int64_t columns;
  FloatRows residual{nullptr, 0};
  float* gelu = nullptr;
};
// A strip that is packed.
struct PackedStrip {
  const float* data = nullptr;
  int64_t depth = 0;
};
// next: what is likely to be multiplied afterwards, which comes into the caches meanwhile.
void multiply_strip(const BlocksOfRows& first, const PackedStrip& strip, const StripSums& sums,
                    const PackedStrip& next);

}  // namespace fovea::kernels::cpu
