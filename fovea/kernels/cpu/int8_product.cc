#include "fovea/kernels/cpu/int8_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/int8_bytes.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/cpu/tiles.h"

namespace fovea::kernels::cpu {
namespace {

int64_t rounded_up(int64_t size, int64_t to) { return parts_of(size, to) * to; }

// The scale of a column; NaN where something is not finite.
float scale_of_column(const float* values, int64_t depth, int most_code) {
  float largest = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < depth; ++i) {
    is_finite &= std::isfinite(values[i]);
    largest = std::max(largest, std::abs(values[i]));
  }
  if (!is_finite) return std::numeric_limits<float>::quiet_NaN();
  const float scale = largest / static_cast<float>(most_code);
  return scale >= std::numeric_limits<float>::min() ? scale : 0;  // its inverse is finite
}

// Writes the codes of a column to its place in a strip; their sum.
int32_t pack_column(const std::vector<int8_t>& codes, const Int8Layout& layout, uint8_t* to) {
  int32_t sum = 0;
  int64_t i = 0;
  for (const int16_t code : codes) {
    auto* group = to + i / layout.group * layout.width * Int8Layout::kGroupBytes;
    std::memcpy(group + i % layout.group * layout.code_bytes(), &code,  // the low byte first
                static_cast<size_t>(layout.code_bytes()));
    sum += code;
    ++i;
  }
  return sum;
}

template <class T>
class Int8Product {
 public:
  Int8Product(const T* x, int64_t stride, int64_t rows, const Int8Weight& weight, const float* bias,
              const Int8Results<T>& results)
      : x_(x),
        stride_(stride),
        num_rows_(rows),
        weight_(weight),
        columns_{weight.columns, weight.scales.data(), weight.sums.data(), bias},
        results_(results),
        layout_(int8_layout(weight.form)),
        rows_(static_cast<size_t>(rows)) {
    cut();
  }

  void run() {
    quantize();
    if (down_ * across_ == 1) return multiply(0, 0);
    share_out(down_ * across_, /*most=*/1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) multiply(i / across_, i % across_);
    });
  }

 private:
  bool is_in_tiles() const { return weight_.form == Int8Form::kTiles; }

  // Which cuts are made is for speed alone.
  void cut() {
    constexpr int64_t kLeastWork = int64_t{1} << 19;  // products of a part
    constexpr int64_t kLeastStrips = 2, kPartsOfThread = 8;
    // In the second-level cache, which is large where there are tiles.
    const int64_t most_rows = is_in_tiles() ? 800 : 144, most_kib = is_in_tiles() ? 800 : 200;
    const int64_t row_bytes = weight_.groups * Int8Layout::kGroupBytes;
    const int64_t most = std::max(layout_.rows, std::min(most_rows, (most_kib << 10) / row_bytes));
    part_rows_ = rounded_up(parts_of(num_rows_, parts_of(num_rows_, most)), layout_.rows);
    down_ = parts_of(num_rows_, part_rows_);
    const int64_t work = num_rows_ * weight_.columns * weight_.depth;
    const int64_t wanted =
        std::min(kPartsOfThread * at::get_num_threads(), std::max<int64_t>(1, work / kLeastWork));
    across_ = std::clamp<int64_t>(parts_of(wanted, down_), 1,
                                  std::max<int64_t>(1, strips_ / kLeastStrips));
    // Rows a power of two apart would share few places of the first-level cache.
    codes_stride_ = row_bytes + 64;
  }

  // Codes of all rows, and zeros where a last block has none.
  void quantize() {
    const int64_t rows = rounded_up(num_rows_, layout_.rows);
    codes_ = at::empty({rows * codes_stride_}, at::kByte);
    auto* codes = codes_.mutable_data_ptr<uint8_t>();
    const int64_t filled = weight_.depth * layout_.code_bytes();
    const auto* given = weight_.rows ? &*weight_.rows : nullptr;
    constexpr int64_t kGrain = 8;
    for_ranges(num_rows_, kGrain, [&](int64_t begin, int64_t end) {
      quantize_rows({x_ + begin * stride_, stride_, end - begin, weight_.depth}, given,
                    {codes + begin * codes_stride_, codes_stride_, layout_.code_bytes(),
                     rows_.data() + begin});
      for (int64_t r = begin; r < end; ++r) {
        std::memset(codes + r * codes_stride_ + filled, 0,
                    static_cast<size_t>(codes_stride_ - filled));
      }
    });
    std::memset(codes + num_rows_ * codes_stride_, 0,
                static_cast<size_t>((rows - num_rows_) * codes_stride_));
  }

  // Groups of a strip, which stay in the first-level cache while a part's rows come by.
  struct Stretch {
    int64_t begin, count;
  };

  // Of the stretch behind this one, of its strip or the next, which lies behind it in memory: what
  // comes with the first of `blocks` blocks of `steps` steps.
  ComingBytes coming_behind(const uint8_t* stretch, int64_t bytes, int64_t blocks,
                            int64_t steps) const {
    const auto* next = stretch + bytes;
    const auto* end = weight_.strips.data() + strips_ * weight_.groups * group_bytes();
    return ComingBytes::of(next, parts_of(std::min<int64_t>(bytes, end - next), blocks), steps);
  }
  int64_t group_bytes() const { return layout_.width * Int8Layout::kGroupBytes; }

  // The results of a part's rows and a strip. sums: [part_rows_, width].
  void multiply_strip(const Int8Scope& scope, int64_t row_part, int64_t strip,
                      int32_t* sums) const {
    const int64_t most = rounded_up(layout_.most_depth, layout_.depth) / layout_.group;
    const int64_t even = rounded_up(parts_of(weight_.groups, parts_of(weight_.groups, most)),
                                    layout_.depth / layout_.group);
    for (int64_t k = 0; k < weight_.groups; k += even) {
      multiply_stretch(scope, row_part, strip, {k, std::min(even, weight_.groups - k)}, sums);
    }
  }

  // A block is finished as soon as its sums are whole: what it writes goes to memory while the next
  // one is multiplied. In tiles, which lose time from one to the other and back, all blocks are
  // multiplied first.
  void multiply_stretch(const Int8Scope& scope, int64_t row_part, int64_t strip,
                        const Stretch& stretch, int32_t* sums) const {
    const int64_t begin = row_part * part_rows_, column = strip * layout_.width;
    const int64_t count = std::min(part_rows_, num_rows_ - begin);
    const auto columns = columns_.part(column, layout_.width);
    const bool is_last = stretch.begin + stretch.count == weight_.groups;
    const auto* rows = codes_.const_data_ptr<uint8_t>() + begin * codes_stride_ +
                       stretch.begin * Int8Layout::kGroupBytes;
    const auto* packed =
        weight_.strips.data() + (strip * weight_.groups + stretch.begin) * group_bytes();
    const int64_t bytes = stretch.count * group_bytes();
    // Tiles bring it between steps.
    const int64_t steps = parts_of(stretch.count, kInt8GroupsOfStep) - (is_in_tiles() ? 1 : 0);
    const auto finish = [&](int64_t r) {
      finish_rows({sums + r * layout_.width, layout_.width, rows_.data() + begin + r,
                   std::min(layout_.rows, count - r)},
                  columns, results_.part(begin + r, column));
    };
    auto coming = coming_behind(packed, bytes, parts_of(count, layout_.rows), steps);
    for (int64_t r = 0; r < count; r += layout_.rows, coming.pass(steps)) {
      if (is_last) prefetch(results_.part(begin + r, column), std::min(layout_.rows, count - r));
      multiply_int8_block(scope,
                          {.rows = rows + r * codes_stride_,
                           .stride = codes_stride_,
                           .strip = packed,
                           .groups = stretch.count,
                           .wanted_rows = std::min(layout_.rows, count - r),
                           .order = order_of(strip),
                           .coming = coming},
                          /*adds=*/stretch.begin > 0, sums + r * layout_.width);
      if (is_last && !is_in_tiles()) finish(r);
    }
    for (int64_t r = 0; is_last && is_in_tiles() && r < count; r += layout_.rows) finish(r);
  }

  Int8StripOrder order_of(int64_t strip) const {
    if (weight_.places.empty()) return {};
    return {weight_.places.data() + strip * weight_.groups,
            weight_.num_fitting[static_cast<size_t>(strip)],
            weight_.shifts.data() + strip * layout_.width};
  }

  // What a block is written to, and what is added to it, comes while it is multiplied.
  FOVEA_ASKS_FOR_MEMORY void prefetch(const Int8Results<T>& to, int64_t rows) const {
    for (int64_t r = 0; r < rows; ++r) {
      ask_for_row</*kToWrite=*/true>(to.data + r * to.stride, layout_.width);
      if (!to.residual) continue;
      ask_for_row</*kToWrite=*/false>(to.residual + r * to.residual_stride, layout_.width);
    }
  }

  void multiply(int64_t row_part, int64_t column_part) const {
    thread_local AlignedBuffer<int32_t> scratch;
    auto* sums = scratch.reserve(part_rows_ * layout_.width);
    const Int8Scope scope(weight_.form);
    const int64_t end = strips_ * (column_part + 1) / across_;
    for (int64_t strip = strips_ * column_part / across_; strip < end; ++strip) {
      multiply_strip(scope, row_part, strip, sums);
    }
  }

  const T* x_;
  int64_t stride_, num_rows_;
  const Int8Weight& weight_;
  Int8Columns columns_;
  Int8Results<T> results_;
  Int8Layout layout_;
  std::vector<Int8Row> rows_;
  at::Tensor codes_;  // whose memory libtorch's allocator keeps for the next product
  int64_t codes_stride_ = 0;
  int64_t strips_ = parts_of(weight_.columns, layout_.width);
  int64_t part_rows_ = 0;
  int64_t down_ = 1, across_ = 1;  // parts of rows and of columns
};

}  // namespace

float int8_column(const float* values, int64_t depth, int8_t* codes, int most_code) {
  const float scale = scale_of_column(values, depth, most_code);
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (int64_t i = 0; i < depth; ++i) {
    const auto code = std::isnan(scale) ? 0 : std::lrintf(values[i] * inverse);
    codes[i] = static_cast<int8_t>(std::clamp<long>(code, -most_code, most_code));
  }
  return scale;
}

Int8Weight pack_int8_weight(Int8Form form, const float* weight, int64_t columns, int64_t depth) {
  FOVEA_CHECK(depth <= kMostInt8Depth, "a product of 8-bit integers {} deep; expected {} at most",
              depth, kMostInt8Depth);
  const auto layout = int8_layout(form);
  const int64_t strips = parts_of(columns, layout.width);
  Int8Weight packed{.form = form,
                    .columns = columns,
                    .depth = depth,
                    .groups = rounded_up(depth, layout.depth) / layout.group,
                    .strips = {},
                    .scales = std::vector<float>(static_cast<size_t>(strips * layout.width)),
                    .sums = std::vector<int32_t>(static_cast<size_t>(strips * layout.width))};
  const bool is_ordered = form == Int8Form::kBytes;
  if (is_ordered) {
    packed.places.resize(static_cast<size_t>(strips * packed.groups));
    packed.shifts.resize(packed.sums.size());
    packed.num_fitting.resize(static_cast<size_t>(strips));
  }
  const int64_t strip_bytes = packed.groups * layout.width * Int8Layout::kGroupBytes;
  auto* to = packed.strips.reserve(strips * strip_bytes);
  for_ranges(strips, /*grain=*/1, [&](int64_t begin, int64_t end) {
    std::vector<int8_t> codes(static_cast<size_t>(depth));
    for (int64_t strip = begin; strip < end; ++strip) {
      std::memset(to + strip * strip_bytes, 0, static_cast<size_t>(strip_bytes));
      const int64_t last = std::min((strip + 1) * layout.width, columns);
      for (int64_t c = strip * layout.width; c < last; ++c) {
        packed.scales[static_cast<size_t>(c)] =
            int8_column(weight + c * depth, depth, codes.data());
        packed.sums[static_cast<size_t>(c)] = pack_column(
            codes, layout, to + strip * strip_bytes + c % layout.width * Int8Layout::kGroupBytes);
      }
      if (!is_ordered) continue;
      packed.num_fitting[static_cast<size_t>(strip)] = order_int8_strip(
          to + strip * strip_bytes, packed.groups, packed.places.data() + strip * packed.groups,
          packed.shifts.data() + strip * layout.width);
    }
  });
  return packed;
}

void int8_product(const float* x, int64_t stride, int64_t rows, const Int8Weight& weight,
                  const float* bias, const Int8Results<float>& results) {
  Int8Product(x, stride, rows, weight, bias, results).run();
}

void int8_product(const uint16_t* x, int64_t stride, int64_t rows, const Int8Weight& weight,
                  const float* bias, const Int8Results<uint16_t>& results) {
  Int8Product(x, stride, rows, weight, bias, results).run();
}

}  // namespace fovea::kernels::cpu
