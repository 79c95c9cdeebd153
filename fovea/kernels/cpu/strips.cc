#include "fovea/kernels/cpu/strips.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#include "fovea/kernels/cpu/coming_bytes.h"
#include "fovea/kernels/cpu/norm_rows.h"
#include "fovea/kernels/cpu/product_sizes.h"

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/kernels/cpu/strips.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "fovea/kernels/cpu/gelu.inc"
#include "fovea/kernels/cpu/highway_targets.h"
#include "fovea/kernels/cpu/small_product.inc"

// See Note [Strips].
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kMostWidth = 64;

int64_t width_of_strip() { return strip_columns(); }
int64_t rows_of_block() { return kBlockRows; }

// Rows of a transposed factor that are packed side by side: of vectors, and of blocks.
constexpr int64_t kTransposedRows = 24;
static_assert(kTransposedRows % kBlockRows == 0);
int64_t rows_packed_together(bool is_transposed) {
  return is_transposed ? kTransposedRows : kBlockRows;
}

// A strip whose columns are rows of the memory that it is packed from, four values of each at a
// time; those that are not there come from zeros.
void pack_transposed_strip(const FloatFactor& second, const StripRange& columns,
                           const StripRange& depth, float* to) {
  const int64_t width = strip_columns(), whole = depth.count / 4 * 4;
  const auto* from = second.data + columns.begin * second.stride + depth.begin;
  if (columns.count == width) pack_columns(from, second.stride, whole, to);
  for (int64_t k = columns.count == width ? whole : 0; k < depth.count; k += 4) {
    float staged[kMostWidth * 4] = {};
    const auto count = static_cast<size_t>(std::min<int64_t>(4, depth.count - k)) * sizeof(float);
    for (int64_t c = 0; c < columns.count; ++c) {
      std::memcpy(staged + 4 * c, from + c * second.stride + k, count);
    }
    pack_columns(staged, 4, 4, to + k * width);
  }
}

void pack_one_strip(const FloatFactor& second, const StripRange& columns, const StripRange& depth,
                    float* to) {
  if (second.is_transposed) return pack_transposed_strip(second, columns, depth, to);
  const int64_t width = strip_columns(), begin = depth.begin * second.stride + columns.begin;
  if (second.bits) {
    if (columns.count < width) std::fill_n(to, depth.count * width, 0.0f);
    return bfloat16_rows_to_float(second.bits + begin, second.stride, depth.count, columns.count,
                                  to, width);
  }
  const auto* from = second.data + begin;
  if (columns.count == width) {
    return pack_rows(from, second.stride, depth.count, width, to, depth.count);
  }
  for (int64_t i = 0; i < depth.count; ++i, from += second.stride, to += width) {
    std::copy_n(from, columns.count, to);
    std::fill(to + columns.count, to + width, 0.0f);
  }
}

// Values that lie side by side in depth: a block at a time.
void pack_some_blocks(const FloatFactor& first, const StripRange& rows, const StripRange& depth,
                      float* to) {
  const int64_t block_values = depth.count * kBlockRows;
  for (int64_t row = 0; row < rows.count; row += kBlockRows, to += block_values) {
    const auto count = std::min<int64_t>(kBlockRows, rows.count - row);
    if (count < kBlockRows) std::fill_n(to, block_values, 0.0f);
    for (int64_t r = 0; r < count; ++r) {
      const auto* from = first.data + (rows.begin + row + r) * first.stride + depth.begin;
      for (int64_t i = 0; i < depth.count; ++i) to[i * kBlockRows + r] = from[i];
    }
  }
}

// Values of all rows that lie side by side: a step in depth at a time.
void pack_transposed_blocks(const FloatFactor& first, const StripRange& rows,
                            const StripRange& depth, float* to) {
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t size = depth.count * kTransposedRows;
  const int64_t whole = rows.count / kTransposedRows * kTransposedRows;
  for (int64_t i = 0; i < depth.count; ++i, to += kTransposedRows) {
    const auto* from = first.data + (depth.begin + i) * first.stride + rows.begin;
    float* line = to;
    for (int64_t row = 0; row < whole; row += kTransposedRows, line += size) {
      for (int64_t r = 0; r < kTransposedRows; r += lanes) {
        hn::StoreU(hn::LoadU(d, from + row + r), d, line + r);
      }
    }
    for (int64_t r = 0; whole < rows.count && r < kTransposedRows; ++r) {
      line[r] = whole + r < rows.count ? from[whole + r] : 0.0f;
    }
  }
}

void pack_all_blocks(const FloatFactor& first, const StripRange& rows, const StripRange& depth,
                     float* to) {
  if (first.is_transposed) return pack_transposed_blocks(first, rows, depth, to);
  pack_some_blocks(first, rows, depth, to);
}

// What StoreSums does not do.
struct StoreWithResidual {
  Sums c;
  FloatRows residual;
  HWY_INLINE void put(int64_t row, int64_t column, hn::Vec<Tag> sum) const {
    const Tag d;
    const auto* added = residual.data + row * residual.stride + column;
    hn::StoreU(hn::Add(sum, hn::LoadU(d, added)), d, c.data + row * c.stride + column);
  }
};
struct StoreWithGelu {
  Sums c;
  float* gelu;
  HWY_INLINE void put(int64_t row, int64_t column, hn::Vec<Tag> sum) const {
    const Tag d;
    const auto place = row * c.stride + column;
    hn::StoreU(sum, d, c.data + place);
    hn::StoreU(gelu_of(sum, gelu_tail(sum)), d, gelu + place);
  }
};

template <int Vectors>
HWY_INLINE void bring_row(const float* at) {
  for (int64_t v = 0; v < Vectors; ++v) {
    hwy::Prefetch(at + v * static_cast<int64_t>(hn::Lanes(Tag())));
  }
}

// The part of the next strip that comes while a block is multiplied, with each four steps.
struct BringNext {
  ComingBytes coming;
  HWY_INLINE void operator()() { coming.bring<2>(); }
};
// And what is added to the block, a row at a time: asked for at once, together with what it is
// written to, it would be more lines than can be on their way.
template <int Vectors>
struct BringResidual {
  ComingBytes coming;
  FloatRows residual;
  int64_t left = kBlockRows;
  HWY_INLINE void operator()() {
    coming.bring<2>();
    if (left == 0) return;
    --left;
    bring_row<Vectors>(residual.data);
    residual.data += residual.stride;
  }
};

// Of whole blocks. In functions of their own: all in one, the compiler keeps some of the sums in
// memory.
template <int Vectors, class First, class Store, class Bring>
HWY_NOINLINE void multiply_and_store(First a, const float* strip, int64_t depth, RowsStart start,
                                     Store store, Bring bring) {
  multiply_block<kBlockRows, Vectors>(a, strip, depth, start, store, bring);
}

template <int Vectors, class First>
HWY_INLINE void multiply_whole(First a, const float* strip, int64_t depth, const StripSums& sums,
                               const ComingBytes& coming) {
  const RowsStart start{sums.from.data, sums.from.stride};
  const Sums to{sums.to, sums.stride};
  // What the block is written to comes while it is multiplied.
  for (int64_t r = 0; r < kBlockRows; ++r) bring_row<Vectors>(to.data + r * to.stride);
  if (sums.residual.data) {
    multiply_and_store<Vectors>(a, strip, depth, start, StoreWithResidual{to, sums.residual},
                                BringResidual<Vectors>{coming, sums.residual});
  } else if (sums.gelu) {
    multiply_and_store<Vectors>(a, strip, depth, start, StoreWithGelu{to, sums.gelu},
                                BringNext{coming});
  } else {
    multiply_and_store<Vectors>(a, strip, depth, start, StoreSums{to}, BringNext{coming});
  }
}

// Of `rows` rows and sums.columns columns, beside which there is no memory to read or write.
template <int Vectors, class First>
void multiply_part(First a, int64_t rows, const float* strip, int64_t depth, const StripSums& sums,
                   const ComingBytes& coming) {
  constexpr int64_t kValues = kBlockRows * kMostWidth;
  float begun[kValues] = {}, residual[kValues] = {}, to[kValues], gelu[kValues];
  const int64_t width = strip_columns();
  const auto stage = [&](const FloatRows& from, float* staged) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(from.data + r * from.stride, sums.columns, staged + r * width);
    }
  };
  const auto give = [&](const float* staged, float* given) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(staged + r * width, sums.columns, given + r * sums.stride);
    }
  };
  StripSums part{.from = {begun, width}, .to = to, .stride = width, .columns = width};
  stage(sums.from, begun);
  if (sums.residual.data) {
    stage(sums.residual, residual);
    part.residual = {residual, width};
  }
  if (sums.gelu) part.gelu = gelu;
  multiply_whole<Vectors>(a, strip, depth, part, coming);
  give(to, sums.to);
  if (sums.gelu) give(gelu, sums.gelu);
}

HWY_INLINE StripSums from_row(const StripSums& sums, int64_t row) {
  auto rest = sums;
  rest.from.data += row * sums.from.stride;
  rest.to += row * sums.stride;
  if (sums.residual.data) rest.residual.data += row * sums.residual.stride;
  if (sums.gelu) rest.gelu += row * sums.stride;
  return rest;
}

template <class First>
HWY_INLINE void multiply_rows(First a, int64_t rows, const float* strip, int64_t depth,
                              const StripSums& sums, const ComingBytes& coming) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  if (rows == kBlockRows && sums.columns == strip_columns()) {
    return multiply_whole<kStripVectors>(a, strip, depth, sums, coming);
  }
  with_vectors(parts_of(sums.columns, lanes), [&](auto vectors) {
    multiply_part<decltype(vectors)::value>(a, rows, strip, depth, sums, coming);
  });
}

void multiply_one_strip(const BlocksOfRows& first, const PackedStrip& strip, const StripSums& sums,
                        const PackedStrip& next) {
  const int64_t bytes = next.depth * strip_columns() * int64_t{sizeof(float)};
  const int64_t of_block = parts_of(bytes, parts_of(first.count, kBlockRows));
  auto coming = ComingBytes::of(next.data, of_block, strip.depth / 4);
  const auto of_next_block = [&coming, of_block] {
    const auto here = coming;
    coming.at += of_block;
    return here;
  };
  int64_t row = 0;
  for (; first.rows && row + kBlockRows <= first.count; row += kBlockRows) {
    multiply_rows(Lines{first.rows + row * first.stride, first.stride}, kBlockRows, strip.data,
                  strip.depth, from_row(sums, row), of_next_block());
  }
  for (int64_t at = 0; row < first.count; row += kBlockRows, at += kBlockRows) {
    const int64_t beside = at % first.packed_together;
    const auto* packed = first.packed + (at - beside) * strip.depth + beside;
    multiply_rows(TransposedLines{packed, first.packed_together},
                  std::min<int64_t>(kBlockRows, first.count - row), strip.data, strip.depth,
                  from_row(sums, row), of_next_block());
  }
}

}  // namespace
}  // namespace fovea::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels::cpu {

HWY_EXPORT(width_of_strip);
HWY_EXPORT(rows_of_block);
HWY_EXPORT(rows_packed_together);
HWY_EXPORT(pack_one_strip);
HWY_EXPORT(pack_all_blocks);
HWY_EXPORT(multiply_one_strip);

int64_t strip_width() { return FOVEA_DISPATCH(KernelOp::kLinear, width_of_strip)(); }
int64_t block_rows() { return FOVEA_DISPATCH(KernelOp::kLinear, rows_of_block)(); }

int64_t packed_together(const FloatFactor& first) {
  return FOVEA_DISPATCH(KernelOp::kLinear, rows_packed_together)(first.is_transposed);
}

void pack_strip(const FloatFactor& second, const StripRange& columns, const StripRange& depth,
                float* to) {
  FOVEA_DISPATCH(KernelOp::kLinear, pack_one_strip)(second, columns, depth, to);
}

void pack_blocks(const FloatFactor& first, const StripRange& rows, const StripRange& depth,
                 float* to) {
  FOVEA_DISPATCH(KernelOp::kLinear, pack_all_blocks)(first, rows, depth, to);
}

void multiply_strip(const BlocksOfRows& first, const PackedStrip& strip, const StripSums& sums,
                    const PackedStrip& next) {
  FOVEA_DISPATCH(KernelOp::kLinear, multiply_one_strip)(first, strip, sums, next);
}

}  // namespace fovea::kernels::cpu
#endif
