#include "fovea/kernels/cpu/strip_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/share_out.h"

namespace fovea::kernels::cpu {
namespace {

// Values of a strip's stretch that stays in the first-level cache while all rows come by, 24 KiB,
// and of rows of that depth that leave the second-level one room, 216 KiB.
constexpr int64_t kStripValues = 6144, kRowsValues = 55296;

// Working memory of a thread.
struct StripScratch {
  AlignedBuffer<float> blocks;  // packed rows of the first factor, of one stretch
  AlignedBuffer<float> strip;   // a strip of the second one, of one stretch
  AlignedBuffer<float> start;   // what the sums begin with, [columns] in whole strips
};

class StripProduct {
 public:
  StripProduct(const FloatFactor& first, const FloatFactor& second, const float* packed,
               const ProductSizes& sizes, const StripResult& result)
      : first_(first), second_(second), packed_(packed), sizes_(sizes), result_(result) {
    cut();
  }

  void run() {
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
  // Which cuts are made is for speed alone: no bit depends on them.
  void cut() {
    constexpr int64_t kLeastWork = int64_t{1} << 18;  // products of a part
    constexpr int64_t kLeastStrips = 2;
    // A transposed factor is packed once for each part across.
    const int64_t parts_of_thread = first_.is_transposed ? 4 : 8;
    rows_ = parts_of(parts_of(sizes_.rows, parts_of(sizes_.rows, kRowsValues / depth_of_strip())),
                     block_) *
            block_;
    down_ = parts_of(sizes_.rows, rows_);
    const int64_t work = sizes_.rows * sizes_.columns * sizes_.depth;
    const int64_t wanted =
        std::min(parts_of_thread * at::get_num_threads(), std::max<int64_t>(1, work / kLeastWork));
    across_ = std::clamp<int64_t>(parts_of(wanted, down_), 1,
                                  std::max<int64_t>(1, strips_ / kLeastStrips));
  }

  int64_t depth_of_strip() const { return kStripValues / width_; }

  // A strip that several parts need is packed once.
  bool packs_before() const { return down_ > 1; }

  StripRange strip_columns(int64_t strip) const {
    return {strip * width_, std::min(width_, sizes_.columns - strip * width_)};
  }

  // The rows of part `row_part`, of a stretch in depth.
  BlocksOfRows blocks(int64_t row_part, const StripRange& depth, StripScratch& scratch) const {
    const int64_t begin = row_part * rows_, count = std::min(rows_, sizes_.rows - begin);
    BlocksOfRows rows{.count = count};
    int64_t whole = 0;
    if (!first_.is_transposed) {
      rows.rows = first_.data + begin * first_.stride + depth.begin;
      rows.stride = first_.stride;
      whole = count / block_ * block_;
    }
    if (whole == count) return rows;
    auto* packed = scratch.blocks.reserve(parts_of(count - whole, block_) * block_ * depth.count);
    pack_blocks(first_, {begin + whole, count - whole}, depth, packed);
    rows.packed = packed;
    return rows;
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

  // What this thread multiplies after `strip`, if it takes the part that is its own where all
  // threads take turns.
  PackedStrip next_of(int64_t part, int64_t strip, const StripRange& depth) const {
    if (!packed_) return {};
    if (strip + 1 < end_of(part)) return packed_strip(strip + 1, depth);
    const int64_t deeper = depth.begin + depth.count, next_part = part + at::get_num_threads();
    if (deeper < sizes_.depth) return packed_strip(first_of(part), stretch_from(deeper));
    return next_part < down_ * across_ ? packed_strip(first_of(next_part), stretch_from(0))
                                       : PackedStrip();
  }

  StripSums sums_of(int64_t row_part, int64_t strip, const StripRange& depth,
                    const float* start) const {
    const auto [column, columns] = strip_columns(strip);
    const int64_t row = row_part * rows_;
    auto* to = result_.data + row * result_.stride + column;
    StripSums sums{
        .from = {to, result_.stride}, .to = to, .stride = result_.stride, .columns = columns};
    if (depth.begin == 0) sums.from = {start + column, 0};
    if (depth.begin + depth.count < sizes_.depth) return sums;
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
  int64_t first_of(int64_t part) const { return strips_ * (part / down_) / across_; }
  int64_t end_of(int64_t part) const { return strips_ * (part / down_ + 1) / across_; }

  void multiply(int64_t part) const {
    thread_local StripScratch scratch;
    const int64_t row_part = part % down_, from = first_of(part), to = end_of(part);
    const auto* start = start_of({from, to - from}, scratch);
    for (int64_t k = 0; k < sizes_.depth; k += most_depth_) {
      const auto depth = stretch_from(k);
      const auto rows = blocks(row_part, depth, scratch);
      for (int64_t strip = from; strip < to; ++strip) {
        multiply_strip(rows, strip_of(strip, depth, scratch),
                       sums_of(row_part, strip, depth, start), next_of(part, strip, depth));
      }
    }
  }

  FloatFactor first_, second_;
  const float* packed_;
  ProductSizes sizes_;
  StripResult result_;
  at::Tensor own_packed_;  // whose memory libtorch's allocator keeps for the next product
  int64_t width_ = strip_width(), block_ = block_rows();
  int64_t strips_ = parts_of(sizes_.columns, width_);
  // Of a stretch.
  int64_t most_depth_ =
      strip_depth(parts_of(sizes_.depth, parts_of(sizes_.depth, depth_of_strip())));
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

}  // namespace fovea::kernels::cpu
