#include "fovea/kernels/cpu/strip_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/norm_rows.h"
#include "fovea/kernels/cpu/rounded_rows.h"
#include "fovea/kernels/cpu/share_out.h"

namespace fovea::kernels::cpu {
namespace {

// The depth of a stretch of strips and rows. A strip's stretch (AVX2: 24 KiB; AVX-512: 96 KiB,
// which sums that are begun more often cost more than) stays in the caches while all rows come by.
constexpr int64_t kMostDepth = 384;

// Working memory of a thread.
struct StripScratch {
  AlignedBuffer<float> blocks;  // packed rows of the first factor, of one stretch
  AlignedBuffer<float> rows;    // of the first factor, of one stretch, where they are of bfloat16
  AlignedBuffer<float> sums;    // of a part, which become bfloat16
  AlignedBuffer<float> strip;   // a strip of the second one, of one stretch
  AlignedBuffer<float> start;   // what the sums begin with, [columns] in whole strips
};

// Where sums that become bfloat16 are until then: these columns of a part's rows; null: nowhere.
struct ScratchSums {
  float* data = nullptr;
  StripRange columns = {};
};

class StripProduct {
 public:
  StripProduct(const FloatFactor& first, const FloatFactor& second, const float* packed,
               const ProductSizes& sizes, const StripResult& result)
      : first_(first), second_(second), packed_(packed), sizes_(sizes), result_(result) {
    cut();
  }
  StripProduct(const FloatFactor& first, const float* packed, const ProductSizes& sizes,
               const Bfloat16Result& result)
      : StripProduct(first, {}, packed, sizes,
                     {.data = nullptr, .stride = 0, .bias = result.bias}) {
    rounded_ = result;
    if (at::get_num_threads() == 1) across_ = 1;  // rows of a part become float32 once
  }

  void run() {
    if (first_.bits && across_ > 1) widen_rows();
    if (!packed_ && packs_before()) {
      own_packed_ = at::empty({packed_strips_size(sizes_.depth, sizes_.columns)}, at::kFloat);
      auto* packed = own_packed_.mutable_data_ptr<float>();
      pack_strips(second_, sizes_.depth, sizes_.columns, packed);
      packed_ = packed;
    }
    if (down_ * across_ == 1) return multiply(0);
    share_out(down_ * across_, /*most=*/1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) multiply(part);
    });
  }

 private:
  // All of bfloat16's, at once, where several parts read each of them.
  void widen_rows() {
    const int64_t rows = sizes_.rows, depth = sizes_.depth;
    wide_rows_ = at::empty({rows * depth}, at::kFloat);
    auto* to = wide_rows_.mutable_data_ptr<float>();
    constexpr int64_t kGrain = 16;
    for_ranges(rows, kGrain, [&](int64_t begin, int64_t end) {
      bfloat16_rows_to_float(first_.bits + begin * first_.stride, first_.stride, end - begin, depth,
                             to + begin * depth, depth);
    });
    first_ = {to, depth, /*is_transposed=*/false};
  }

  // Rows of a part: 216 KiB of a stretch's depth, which leave the second-level cache room. A
  // transposed factor is packed once for each part across, twice as many rows where that cache has
  // 1 MiB and more.
  int64_t most_rows() const {
    constexpr int64_t kWidthOfAvx512 = 64;
    return first_.is_transposed && width_ == kWidthOfAvx512 ? 288 : 144;
  }

  // Which cuts are made is for speed alone: no bit depends on them.
  void cut() {
    constexpr int64_t kLeastWork = int64_t{1} << 18;         // products of a part
    constexpr int64_t kLeastColumns = 32, kLeastBlocks = 4;  // of a part
    const int64_t threads = at::get_num_threads();
    const int64_t most =
        std::max<int64_t>(1, sizes_.rows * sizes_.columns * sizes_.depth / kLeastWork);
    const int64_t most_across =
        std::max<int64_t>(1, sizes_.columns / std::max(kLeastColumns, width_));
    // Where there are too few columns for all threads, rows are cut further.
    const int64_t least_down = std::min(parts_of(std::min(2 * threads, most), most_across),
                                        parts_of(sizes_.rows, kLeastBlocks * block_));
    const int64_t down = std::max(parts_of(sizes_.rows, most_rows()), least_down);
    rows_ = parts_of(parts_of(sizes_.rows, down), block_) * block_;
    down_ = parts_of(sizes_.rows, rows_);
    const int64_t wanted = std::min((first_.is_transposed ? 2 : 8) * threads, most);
    across_ = std::clamp<int64_t>(parts_of(wanted, down_), 1, most_across);
  }

  // Packing a strip once for all parts that need it writes it to memory, which costs more than
  // packing it twice.
  bool packs_before() const { return down_ > (second_.is_transposed ? 1 : 2); }

  StripRange strip_columns(int64_t strip) const {
    return {strip * width_, std::min(width_, sizes_.columns - strip * width_)};
  }

  // The rows of part `row_part`, of a stretch in depth.
  BlocksOfRows blocks(int64_t row_part, const StripRange& depth, StripScratch& scratch) const {
    const int64_t begin = row_part * rows_, count = std::min(rows_, sizes_.rows - begin);
    BlocksOfRows rows{.count = count};
    int64_t whole = 0;
    const auto [first, from] = floats_of({begin, count}, depth, scratch);
    if (!first.is_transposed) {
      rows.rows = first.data + from.row * first.stride + from.depth;
      rows.stride = first.stride;
      whole = count / block_ * block_;
    }
    if (whole == count) return rows;
    rows.packed_together = packed_together(first);
    auto* packed = scratch.blocks.reserve(parts_of(count - whole, rows.packed_together) *
                                          rows.packed_together * depth.count);
    pack_blocks(first, {from.row + whole, count - whole}, {from.depth, depth.count}, packed);
    rows.packed = packed;
    return rows;
  }

  // The first factor, and where in it rows and a stretch begin.
  struct FloatsOfRows {
    FloatFactor factor;
    struct {
      int64_t row, depth;
    } from;
  };
  FloatsOfRows floats_of(const StripRange& rows, const StripRange& depth,
                         StripScratch& scratch) const {
    if (!first_.bits) return {first_, {rows.begin, depth.begin}};
    // Rows a power of two apart would share few places of the first-level cache.
    const int64_t stride = depth.count + 16;
    auto* floats = scratch.rows.reserve(rows.count * stride);
    bfloat16_rows_to_float(first_.bits + rows.begin * first_.stride + depth.begin, first_.stride,
                           rows.count, depth.count, floats, stride);
    return {{floats, stride, /*is_transposed=*/false}, {0, 0}};
  }

  StripRange stretch_from(int64_t begin) const {
    return {begin, std::min(most_depth_, sizes_.depth - begin)};
  }

  // Of strips that are packed before.
  PackedStrip packed_strip(int64_t strip, const StripRange& depth) const {
    return {packed_ + (strip * strip_depth(sizes_.depth) + depth.begin) * width_, depth.count};
  }

  PackedStrip strip_of(int64_t strip, const StripRange& depth, StripScratch& scratch) const {
    if (packed_) return packed_strip(strip, depth);
    auto* to = scratch.strip.reserve(strip_depth(depth.count) * width_);
    pack_strip(second_, strip_columns(strip), depth, to);
    return {to, depth.count};
  }

  // What this thread multiplies after `strip`, if nobody else takes the part behind this one.
  PackedStrip next_of(int64_t part, int64_t strip, const StripRange& depth) const {
    if (!packed_) return {};
    if (strip + 1 < end_of(part)) return packed_strip(strip + 1, depth);
    const int64_t deeper = depth.begin + depth.count, next_part = part + 1;
    if (deeper < sizes_.depth) return packed_strip(first_of(part), stretch_from(deeper));
    return next_part < down_ * across_ ? packed_strip(first_of(next_part), stretch_from(0))
                                       : PackedStrip();
  }

  StripSums sums_of(int64_t row_part, int64_t strip, const StripRange& depth, const float* start,
                    const ScratchSums& staged) const {
    const auto [column, columns] = strip_columns(strip);
    const int64_t row = row_part * rows_;
    auto* to = staged.data ? staged.data + column - staged.columns.begin
                           : result_.data + row * result_.stride + column;
    const int64_t stride = staged.data ? staged.columns.count : result_.stride;
    StripSums sums{.from = {to, stride}, .to = to, .stride = stride, .columns = columns};
    if (depth.begin == 0) sums.from = {start + column, 0};
    if (staged.data || depth.begin + depth.count < sizes_.depth) return sums;
    if (result_.gelu) sums.gelu = result_.gelu + (to - result_.data);
    if (result_.residual) {
      sums.residual = {result_.residual + row * result_.residual_stride + column,
                       result_.residual_stride};
    }
    return sums;
  }

  const float* start_of(const StripRange& strips, StripScratch& scratch) const {
    auto* start = scratch.start.reserve(strips_ * width_);
    const int64_t begin = strips.begin * width_;
    const int64_t end = std::min(begin + strips.count * width_, sizes_.columns);
    if (result_.bias) {
      std::copy(result_.bias + begin, result_.bias + end, start + begin);
    } else {
      std::fill(start + begin, start + end, 0.0f);
    }
    return start;
  }

  // The strips of a part: [first_of, end_of).
  int64_t first_of(int64_t part) const { return strips_ * (part % across_) / across_; }
  int64_t end_of(int64_t part) const { return strips_ * (part % across_ + 1) / across_; }

  void multiply(int64_t part) const {
    thread_local StripScratch scratch;
    const int64_t row_part = part / across_, from = first_of(part), to = end_of(part);
    const auto* start = start_of({from, to - from}, scratch);
    // Sums of one stretch are whole, and become bfloat16 a few strips at a time; of several, once
    // all strips have come by for the last time.
    constexpr int64_t kFewStrips = 8;
    const bool are_few = rounded_ && sizes_.depth <= most_depth_;
    const int64_t most = are_few ? kFewStrips : to - from;
    for (int64_t k = 0; k < sizes_.depth; k += most_depth_) {
      const auto depth = stretch_from(k);
      const auto rows = blocks(row_part, depth, scratch);
      for (int64_t begin = from; begin < to; begin += most) {
        const int64_t end = std::min(begin + most, to);
        const auto staged = scratch_sums(begin, end, scratch);
        for (int64_t strip = begin; strip < end; ++strip) {
          multiply_strip(rows, strip_of(strip, depth, scratch),
                         sums_of(row_part, strip, depth, start, staged),
                         next_of(part, strip, depth));
        }
        if (rounded_ && k + depth.count == sizes_.depth) round_sums(row_part, staged);
      }
    }
  }

  // Of the strips [from, to), where they become bfloat16.
  ScratchSums scratch_sums(int64_t from, int64_t to, StripScratch& scratch) const {
    if (!rounded_) return {};
    const int64_t begin = from * width_, count = std::min(to * width_, sizes_.columns) - begin;
    return {scratch.sums.reserve(rows_ * count), {begin, count}};
  }

  // A part's sums, while they are in the caches.
  void round_sums(int64_t row_part, const ScratchSums& sums) const {
    const int64_t begin = row_part * rows_, column = sums.columns.begin;
    round_rows(sums.data, std::min(rows_, sizes_.rows - begin), sums.columns.count,
               rounded_->part(begin, column));
  }

  FloatFactor first_, second_;
  const float* packed_;
  ProductSizes sizes_;
  StripResult result_;
  std::optional<Bfloat16Result> rounded_ = {};  // in place of result_
  // Their memory libtorch's allocator keeps for the next product.
  at::Tensor own_packed_, wide_rows_;
  int64_t width_ = strip_width(), block_ = block_rows();
  int64_t strips_ = parts_of(sizes_.columns, width_);
  // Of a stretch.
  int64_t most_depth_ = strip_depth(parts_of(sizes_.depth, parts_of(sizes_.depth, kMostDepth)));
  int64_t rows_ = 0;               // of a part
  int64_t down_ = 1, across_ = 1;  // parts of rows and of columns
};

}  // namespace

int64_t packed_strips_size(int64_t depth, int64_t columns) {
  return parts_of(columns, strip_width()) * strip_width() * strip_depth(depth);
}

void pack_strips(const FloatFactor& second, int64_t depth, int64_t columns, float* to) {
  const int64_t width = strip_width(), size = strip_depth(depth) * width;
  const int64_t strips = parts_of(columns, width);
  const auto pack = [&](int64_t strip, const StripRange& values) {
    const int64_t column = strip * width;
    pack_strip(second, {column, std::min(width, columns - column)}, values,
               to + strip * size + values.begin * width);
  };
  // Rows are read from front to back: a strip's values lie in rows of their own, or those of all
  // strips side by side.
  if (second.is_transposed) {
    for_ranges(strips, /*grain=*/4, [&](int64_t begin, int64_t end) {
      for (int64_t strip = begin; strip < end; ++strip) pack(strip, {0, depth});
    });
    return;
  }
  constexpr int64_t kRows = 64;
  for_ranges(parts_of(depth, kRows), /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * kRows; row < std::min(end * kRows, depth); row += kRows) {
      for (int64_t strip = 0; strip < strips; ++strip) {
        pack(strip, {row, std::min(kRows, depth - row)});
      }
    }
  });
}

void strip_product(const FloatFactor& first, const FloatFactor& second, const float* packed,
                   const ProductSizes& sizes, const StripResult& result) {
  StripProduct(first, second, packed, sizes, result).run();
}

void strip_product(const uint16_t* first, int64_t stride, const float* packed,
                   const ProductSizes& sizes, const Bfloat16Result& result) {
  const FloatFactor rows{nullptr, stride, /*is_transposed=*/false, first};
  StripProduct(rows, packed, sizes, result).run();
}

}  // namespace fovea::kernels::cpu
