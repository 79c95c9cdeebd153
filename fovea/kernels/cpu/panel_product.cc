#include "fovea/kernels/cpu/panel_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <type_traits>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/bfloat16.h"

// Note [Blocks of a product]
// The second factor is packed whole (Note [Panels]), by all threads, if it is not already. Then
// each thread takes runs of panels of the first factor, and packs a run to a depth of 512 values, a
// stretch, unless its lines can be multiplied where they lie: as rows. Eight panels of
// it at a time, 256 KiB, stay in the second-level cache. In vectors each panel of the second
// factor, 32 KiB of it, goes through the first-level cache once and meets all eight. Tiles read a
// panel of both factors once in a block: there eight panels of the second factor stay in the
// second-level cache, too, and each of the first one goes through the first-level cache and meets
// them; for packed panels, which come by, are read from front to back, as rows of a matrix are not.
// A run is these eight, but of deeper factors, whose sums wait from one stretch to the next, as
// many as have room for their sums: of a first factor that is stored transposed, as in the gradient
// of a weight, they are pieces of the same rows, and a row that is far from its neighbours costs
// more to find than to read.
// Of rows that tiles multiply where they lie a run is as many as the second-level cache holds, for
// which the second factor comes by once; and a stretch is 1,536 values: sums that wait cost more
// than what is read anew.
// Of rows that vectors multiply where they lie, so few panels of the second factor come by at a
// time, for all stretches, that sums which wait do so in the second-level cache. Few rows are cut
// into as many parts as there are threads, each of which so has its own: Note [Sections].
// Of a single image's rows and a weight of a megabyte or more, which has to come from afar, the
// threads take panels of the weight, one at a time with all rows, while the next one comes: each is
// read by one thread. In the other order ViT-B took an eighth longer for an image.
namespace fovea::kernels::cpu {
namespace {

constexpr int64_t kPanelsAtOnce = 8, kMostSteps = 16;
// Of rows that tiles multiply where they lie.
constexpr int64_t kMostStepsOfRows = 48, kStepsOfRun = 384;
// Of sums of rows that vectors multiply where they lie: 256 KiB.
constexpr int64_t kMostWaiting = 64;
// Of a second factor that is shared out by its panels: 1 MiB.
constexpr int64_t kLeastStepsAcross = 512;

// Rows 4 KiB apart fall into the same few sets of the caches and put each other out.
constexpr int64_t kStrideOfOneSet = 2048;

// Results that do not stay in a cache until someone reads them are written past it: otherwise the
// processor would read each line first. Of the values of bfloat16 that a thread makes of a few
// samples, what has left the second-level cache of a processor with tiles is in the third.
constexpr int64_t kMostCachedValues = int64_t{1} << 19, kMostCachedOfTiles = int64_t{1} << 21;

BlockTarget target_of(PanelUnit unit, const Bfloat16Result& result, const ProductSizes& sizes,
                      int64_t row, int64_t column) {
  const auto most_cached = unit == PanelUnit::kTiles ? kMostCachedOfTiles : kMostCachedValues;
  const auto part = result.part(row, column);
  return {.data = part.data,
          .stride = part.stride,
          .rows = std::min(kBlockSide, sizes.rows - row),
          .columns = std::min(kBlockSide, sizes.columns - column),
          .bias = part.bias,
          .residual = part.residual,
          .residual_stride = part.residual_stride,
          .is_streamed = sizes.rows * sizes.columns > most_cached,
          .gelu = part.gelu};
}

FloatBlockTarget target_of(PanelUnit /*unit*/, const FloatResult& result, const ProductSizes& sizes,
                           int64_t row, int64_t column) {
  const auto height = std::min(kBlockSide, sizes.rows - row);
  const auto width = std::min(kBlockSide, sizes.columns - column);
  const bool is_turned = result.is_transposed;
  return {.data = result.part(row, column).data,
          .stride = result.stride,
          .rows = is_turned ? width : height,
          .columns = is_turned ? height : width,
          .is_transposed = is_turned,
          .is_streamed = sizes.rows * sizes.columns > kMostCachedValues};
}

// Of the values or lines of block `block`, of `size` in all.
int64_t part_of_block(int64_t size, int64_t block) {
  return std::min(kBlockSide, size - block * kBlockSide);
}

// Working memory of a thread.
struct PanelScratch {
  AlignedBuffer<uint16_t> packed;  // [panels of a run, steps of a stretch, kStepValues]
  AlignedBuffer<float> sums;       // [blocks that wait, 32, 32]
};

template <class Result>
class Product {
 public:
  Product(PanelUnit unit, const Factor& first, const SecondFactor& second,
          const ProductSizes& sizes, const Result& result)
      : unit_(unit), first_(first), second_(second), sizes_(sizes), result_(result) {
    // Whichever way it lies, it is packed from its first row to its last one.
    first_.ahead = kBlockSide * first_.stride;
    reads_rows_ = !first_.is_transposed && !wants_row_sums() && sizes_.depth % kBlockSide == 0 &&
                  first_.stride % kStrideOfOneSet != 0;
  }

  void run() {
    at::Tensor packed;  // whose memory libtorch's allocator keeps for the next product
    if (!second_.packed) {
      packed = at::empty({packed_panels_size(sizes_.depth, sizes_.columns)}, at::kBFloat16);
      pack_panels(second_.factor, sizes_.depth, sizes_.columns, mutable_bits_of(packed));
      second_.packed = bits_of(packed);
    }
    if (is_shared_out_across()) return run_across();
    if (is_cut_by_rows()) return run_by_rows();
    // Few panels are cut across as well, so that all threads have as much work.
    const int64_t parts = std::clamp<int64_t>(16 * at::get_num_threads() / down_, 1, across_);
    const auto run = [&](const PanelScope& scope, int64_t part, int64_t panel, int64_t count) {
      multiply(scope, panel, count, across_ * part / parts, across_ * (part + 1) / parts);
    };
    share_out_runs(parts, down_, panels_of_run(), least_of_run(), run);
  }

 private:
  bool is_shared_out_across() const {
    return has_tiles_of_rows() && down_ <= kPanelsAtOnce && across_ * steps_ >= kLeastStepsAcross;
  }

  // Whether threads have rows of their own, fewer than a run.
  bool is_cut_by_rows() const {
    return unit_ == PanelUnit::kVectors && !first_.is_transposed && !wants_row_sums() &&
           down_ < kPanelsAtOnce * at::get_num_threads() && sizes_.rows >= 2 * kBlockSide;
  }

  void run_by_rows() const {
    constexpr int64_t kPartsOfThread = 8, kLeastBlocks = 4;  // of a part
    const int64_t threads = at::get_num_threads(), shares = std::min(threads, down_);
    const int64_t rows = parts_of(parts_of(sizes_.rows, shares), kLinesAtOnce) * kLinesAtOnce;
    const int64_t down = parts_of(sizes_.rows, rows);
    const int64_t wanted = kPartsOfThread * parts_of(threads, down);
    const int64_t parts =
        std::clamp<int64_t>(down_ * across_ / (down * kLeastBlocks), 1, std::min(wanted, across_));
    share_out(down * parts, /*most=*/1, [&](int64_t begin, int64_t end) {
      const PanelScope scope(unit_);
      for (int64_t i = begin; i < end; ++i) {
        const auto share = of_rows(i / parts * rows, rows);
        const int64_t part = i % parts;
        share.multiply(scope, 0, share.down_, across_ * part / parts, across_ * (part + 1) / parts);
      }
    });
  }

  // The product of these rows, or those that there are.
  Product of_rows(int64_t row, int64_t count) const {
    auto some = *this;
    some.first_.data += row * first_.stride;
    some.sizes_.rows = std::min(count, sizes_.rows - row);
    some.down_ = num_blocks(some.sizes_.rows);
    some.result_ = result_.part(row, 0);
    return some;
  }

  // Many threads get some of the rows only, so that all have work.
  void run_across() const {
    constexpr int64_t kLeastPanels = 2, kPanelsOfThread = 4;
    const int64_t parts =
        std::clamp<int64_t>(kPanelsOfThread * at::get_num_threads() / across_, 1, down_);
    const auto run = [&](const PanelScope& scope, int64_t part, int64_t panel, int64_t count) {
      const auto first = down_ * part / parts, last = down_ * (part + 1) / parts;
      multiply(scope, first, last - first, panel, panel + count);
    };
    share_out_runs(parts, across_, across_, kLeastPanels, run);
  }

  // Calls run(scope, part, panel, count) for runs of `least` to `most` of the `panels` panels that
  // one factor has, for each of `parts` parts of the other one.
  template <class Run>
  void share_out_runs(int64_t parts, int64_t panels, int64_t most, int64_t least,
                      const Run& run) const {
    const auto body = [&](int64_t begin, int64_t end) {
      const PanelScope scope(unit_);
      while (begin < end) {
        const auto panel = begin % panels, count = std::min({most, end - begin, panels - panel});
        run(scope, begin / panels, panel, count);
        begin += count;
      }
    };
    share_out(parts * panels, most, body, least);
  }

  bool wants_row_sums() const {
    if constexpr (std::is_same_v<Result, FloatResult>) return result_.row_sums != nullptr;
    return false;
  }

  // Whether a panel of the first factor is multiplied where it lies.
  bool is_read_in_place(int64_t panel) const {
    return reads_rows_ && part_of_block(sizes_.rows, panel) % rows_at_once(unit_) == 0;
  }

  // Panels [begin, begin + count) of the first factor, steps [step, step + num_steps) of each.
  void pack_some_of_first(int64_t begin, int64_t count, int64_t step, int64_t num_steps,
                          uint16_t* to) const {
    const auto pack = [&](int64_t i, int64_t offset, int64_t depth) {
      pack_first(first_, (begin + i) * kBlockSide, part_of_block(sizes_.rows, begin + i),
                 (step + offset) * kBlockSide, depth, to + (i * num_steps + offset) * kStepValues);
    };
    const auto left = sizes_.depth - step * kBlockSide;
    if (!first_.is_transposed) {
      for (int64_t i = 0; i < count; ++i) {
        if (!is_read_in_place(begin + i)) pack(i, 0, std::min(num_steps * kBlockSide, left));
      }
      return;
    }
    for (int64_t offset = 0; offset < num_steps; ++offset) {
      for (int64_t i = 0; i < count; ++i) pack(i, offset, part_of_block(left, offset));
    }
  }

  struct Range {
    int64_t from, to;
  };
  struct Steps {
    int64_t first, count;
  };

  // Panel `panel` of the first factor from step `step` on; packed: where that is, if it is.
  PanelLines lines_of(int64_t panel, int64_t step, const uint16_t* packed) const {
    if (!is_read_in_place(panel)) return {packed};
    const auto* rows = first_.data + panel * kBlockSide * first_.stride;
    return {rows + step * kBlockSide, first_.stride, kBlockSide};
  }

  // Of packed panels of the first factor, where sums of its lines are wanted.
  void sum_packed(const uint16_t* packed, int64_t begin, int64_t count, const Steps& steps) const {
    if constexpr (std::is_same_v<Result, FloatResult>) {
      for (int64_t i = 0; result_.row_sums && i < count; ++i) {
        sum_lines(packed + i * steps.count * kStepValues, steps.count,
                  part_of_block(sizes_.rows, begin + i), steps.first > 0,
                  result_.row_sums + (begin + i) * kBlockSide);
      }
    }
  }

  // Whether tiles multiply rows where they lie.
  bool has_tiles_of_rows() const { return reads_rows_ && unit_ == PanelUnit::kTiles; }
  // Of a stretch.
  int64_t most_steps() const { return has_tiles_of_rows() ? kMostStepsOfRows : kMostSteps; }

  // Of panels of the first factor that are packed together: in a deep product as many as leave
  // their waiting sums in the second-level cache.
  int64_t panels_of_run() const {
    if (steps_ <= most_steps()) {
      return has_tiles_of_rows() ? std::max(kPanelsAtOnce, kStepsOfRun / steps_) : kPanelsAtOnce;
    }
    // Blocks: 1.25 MiB of the 2 MiB that processors with AMX have, 640 KiB of others' 1 MiB.
    const int64_t most_waiting = unit_ == PanelUnit::kTiles ? 320 : 160;
    return std::max(kPanelsAtOnce, most_waiting / across_ / kPanelsAtOnce * kPanelsAtOnce);
  }

  // The whole second factor comes by for each run, and of few panels of a transposed first factor
  // little is read in each row.
  int64_t least_of_run() const {
    if (steps_ <= most_steps()) return 1;
    return std::clamp<int64_t>(down_ / (2 * at::get_num_threads()), 1, kPanelsAtOnce / 2);
  }

  // Panels [begin, begin + count) of the first factor times panels [from, to) of the second one.
  void multiply(const PanelScope& scope, int64_t begin, int64_t count, int64_t from,
                int64_t to) const {
    const bool is_cut = unit_ == PanelUnit::kVectors && reads_rows_ && steps_ > kMostSteps;
    const int64_t width = is_cut ? std::max<int64_t>(1, kMostWaiting / count) : to - from;
    for (; from < to; from += width) {
      multiply_some(scope, begin, count, from, std::min(from + width, to));
    }
  }

  void multiply_some(const PanelScope& scope, int64_t begin, int64_t count, int64_t from,
                     int64_t to) const {
    thread_local PanelScratch scratch;
    const int64_t stretches = parts_of(steps_, most_steps());
    const int64_t most = parts_of(steps_, stretches);
    auto* packed = scratch.packed.reserve(count * most * kStepValues);
    // Sums that need not wait for another stretch share the blocks that wait to be stored.
    const bool waits = stretches > 1;
    const int64_t blocks = waits ? count * (to - from) : blocks_at_once();
    auto* sums = scratch.sums.reserve(blocks * kBlockValues);
    for (int64_t step = 0; step < steps_; step += most) {
      const auto num_steps = std::min(most, steps_ - step);
      pack_some_of_first(begin, count, step, num_steps, packed);
      if (from == 0) sum_packed(packed, begin, count, {step, num_steps});
      const int64_t together = has_tiles_of_rows() ? count : kPanelsAtOnce;
      for (int64_t i = 0; i < count; i += together) {
        // In the order in which they come by. `number`: of a block among those of multiply_packed.
        const auto block_of = [&](int64_t number, int64_t panel, int64_t j) {
          const int64_t down = i + j, across = panel - from;
          const auto place =
              unit_ == PanelUnit::kTiles ? down * (to - from) + across : across * count + down;
          return sums + (waits ? place : number % blocks) * kBlockValues;
        };
        multiply_packed(scope, packed + i * num_steps * kStepValues, begin + i,
                        std::min(together, count - i), {from, to}, {step, num_steps}, block_of);
      }
    }
  }

  // block_of(number, panel, i): where the sums of panel begin + i of the first factor and of
  // `panel` of the second one are.
  template <class BlockOf>
  void multiply_packed(const PanelScope& scope, const uint16_t* packed, int64_t begin,
                       int64_t count, const Range& panels, const Steps& steps,
                       const BlockOf& block_of) const {
    const int64_t at_once = panels_at_once();
    const bool is_last = steps.first + steps.count == steps_;
    for (int64_t from = panels.from; from < panels.to; from += at_once) {
      const int64_t width = std::min(at_once, panels.to - from), blocks = count * width;
      for (int64_t number = 0, stored = 0; number < blocks; ++number) {
        const int64_t i = number / width, panel = from + number % width;
        const auto lines = lines_of(begin + i, steps.first, packed + i * steps.count * kStepValues);
        const auto* second = second_.packed + (panel * steps_ + steps.first) * kStepValues;
        if (is_last) ask_for(target(begin + i, panel));
        multiply_panels(
            scope, lines, {second, coming(panel, panels, i, count, steps)},
            {.depth = steps.count * kBlockSide, .lines = part_of_block(sizes_.rows, begin + i)},
            steps.first > 0, block_of(number, panel, i));
        const bool is_line_full = number + 1 == blocks || number + 1 - stored == blocks_at_once();
        for (; is_last && is_line_full && stored <= number; ++stored) {
          const int64_t down = stored / width, across = from + stored % width;
          store_block(block_of(stored, across, down), target(begin + down, across));
        }
      }
    }
  }

  // Tiles multiply so many blocks before one of them is stored: from one to the other and back they
  // lose time.
  int64_t blocks_at_once() const { return unit_ == PanelUnit::kTiles ? kPanelsAtOnce : 1; }
  // Of the second factor.
  int64_t panels_at_once() const { return is_shared_out_across() ? 1 : blocks_at_once(); }

  // Where the block of these panels of the factors goes.
  auto target(int64_t panel_of_first, int64_t panel_of_second) const {
    return target_of(unit_, result_, sizes_, panel_of_first * kBlockSide,
                     panel_of_second * kBlockSide);
  }

  // Panels of the second factor come while those before them are used: with product i of `count` a
  // part of what follows `panel`, which is another one of `panels`, the next stretch of the first
  // ones, or what lies behind them all.
  ComingBytes coming(int64_t panel, const Range& panels, int64_t i, int64_t count,
                     Steps steps) const {
    constexpr int64_t kStepBytes = kStepValues * sizeof(uint16_t);
    panel += panels_at_once();
    if (panel >= panels.to && steps.first + steps.count < steps_) {
      panel = panels.from + panel - panels.to;
      steps.first += steps.count;
      steps.count = std::min(steps.count, steps_ - steps.first);
    } else if (panel >= panels.to) {
      steps.first = 0;
    }
    const auto part = parts_of(steps.count, count), begin = i * part;
    if (panel >= across_ || begin >= steps.count) return {};
    // Vectors go through a panel twice or more for all but a last block of few lines.
    const auto times = unit_ == PanelUnit::kTiles ? steps.count - 1 : 2 * steps.count;
    return ComingBytes::of(second_.packed + (panel * steps_ + steps.first + begin) * kStepValues,
                           std::min(part, steps.count - begin) * kStepBytes, times);
  }

  PanelUnit unit_;
  Factor first_;
  SecondFactor second_;
  ProductSizes sizes_;
  Result result_;
  int64_t down_ = num_blocks(sizes_.rows), across_ = num_blocks(sizes_.columns);
  int64_t steps_ = num_blocks(sizes_.depth);
  bool reads_rows_ = false;
};

}  // namespace

int64_t packed_panels_size(int64_t depth, int64_t columns) {
  return num_blocks(columns) * num_blocks(depth) * kStepValues;
}

// Panel by panel where lines lie in rows, step by step where a row has one value of each line: so
// that rows are read from front to back.
void pack_panels(Factor second, int64_t depth, int64_t columns, uint16_t* to) {
  second.ahead = kBlockSide * second.stride;
  const int64_t panels = num_blocks(columns), steps = num_blocks(depth);
  const auto pack = [&](int64_t panel, int64_t step, int64_t values) {
    pack_second(second, panel * kBlockSide, part_of_block(columns, panel), step * kBlockSide,
                values, to + (panel * steps + step) * kStepValues);
  };
  if (second.is_transposed) {
    return for_ranges(panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) pack(panel, 0, depth);
    });
  }
  for_ranges(steps, 1, [&](int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) {
      for (int64_t panel = 0; panel < panels; ++panel) {
        pack(panel, step, part_of_block(depth, step));
      }
    }
  });
}

void panel_product(PanelUnit unit, const Factor& first, const SecondFactor& second,
                   const ProductSizes& sizes, const Bfloat16Result& result) {
  Product(unit, first, second, sizes, result).run();
}

void panel_product(PanelUnit unit, const Factor& first, const SecondFactor& second,
                   const ProductSizes& sizes, const FloatResult& result) {
  Product(unit, first, second, sizes, result).run();
}

}  // namespace fovea::kernels::cpu
