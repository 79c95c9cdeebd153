// Which samples stand in which global batch: a pure function of (options, position), evaluated one
// row at a time, with no array that grows with the data but that of a set of tiles' volumes.
//
// Note [Mixing sets]
// A batch holds samples of one set only, as sets may differ in channels and size. An epoch of K
// batches holds M_s of each set s; which set comes when is a keyed permutation of [0, K), so a
// set's batches are spread over the epoch, and its samples come in the order of its own
// permutation.
//   exact: every sample of every set once: floor(n_s / B) full batches each, in permuted order,
//     then what is left of each set, in the order of the sets, as smaller batches (with drop_last
//     they are left out).
//   cycle_to_largest: M_s = ceil(n_max / B) for every set (with drop_last: floor); all are full. A
//     set goes through its samples in a new order each time (a cycle), across the ends of epochs,
//     so over time each of its samples is seen equally often.
//   weights: as above, M_s in proportion to weights, by largest remainders, of K = ceil(sum n / B).
//   rank_groups: UCF-VIT's; depends on the number of ranks. Rank r belongs to the set of its group
//     and takes B / ranks rows of each global batch from it; steps of an epoch: the largest of
//     batches_per_rank.
// The samples of a batch do not depend on the number of ranks, except for rank_groups.
//
// Note [Batches that change their size]
// A batch schedule changes no order of samples: of one data set a batch is the next so many places
// of the epoch, and the last one of an epoch ends with it. What counts steps of a training (its
// length, its learning rate, when it evaluates) counts first_size_steps: those that a run whose
// batches stay as large as the first one has taken where it is as far in the data. Batches of a mix
// of sets are of one size within an epoch, as its batches are laid out as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/order/batch_schedule.h"
#include "fovea/data/order/batch_turns.h"
#include "fovea/data/order/epoch_plan.h"
#include "fovea/data/order/mix_options.h"
#include "fovea/data/order/repeated_augmentation.h"
#include "fovea/data/order/tile_order.h"

namespace fovea::data {

struct SampleOrderOptions {
  MixOptions mix = {};
  int64_t global_batch_size = 256;
  BatchSchedule batch_schedule = {};  // where batches change their size
  uint64_t seed = 42;
  bool shuffle = true;
  bool drop_last = false;
  double num_repeats = 1;  // above 1: each sample so often in a row; of one set only
};

// One global batch.
struct GlobalBatch {
  int64_t position = 0;  // samples before it, over all epochs
  int64_t epoch = 0;
  int64_t rows = 0;  // global; below the size of batches there only in exact
  int64_t set = 0;   // of every row; -1 with rank_groups
  // Samples handed out of its set before it: with exact in the epoch, else over all epochs; with
  // rank_groups the batches before it.
  int64_t first = 0;
};

struct SamplePlace {
  int64_t set = 0;
  int64_t index = 0;   // in its set
  int64_t cycle = 0;   // times its set was gone through before: with exact, the epoch
  int64_t repeat = 0;  // of repeated augmentation, from 0 on
};

class SampleOrder {
 public:
  // Throws ConfigError: options that leave a set without a batch, or do not fit each other.
  explicit SampleOrder(const SampleOrderOptions& options);

  // Batches have change.size samples from change.position on; where the last change is, in its
  // place. Throws ConfigError where no batch starts there, where it lies before the last change,
  // and where batches cannot change (drop_last, rank_groups).
  void append(const BatchSizeChange& change);
  // The sizes from position 0 on, each another than the one before.
  BatchSchedule batch_schedule() const;
  bool has_changes() const { return stretches_.size() > 1; }

  int64_t num_sets() const { return mix_.num_sets(); }
  // Of an epoch in batches of the first size. With streams and a schedule others differ.
  int64_t samples_per_epoch() const { return stretches_.front().plan->samples(); }
  int64_t batches_per_epoch() const { return stretches_.front().plan->batches(); }
  // Batches of set s in an epoch of the first size.
  int64_t batches_of(int64_t set) const { return stretches_.front().plan->batches_of(set); }

  // Whether a batch starts at `position`.
  bool is_start(int64_t position) const;
  // The batch that starts at `position`, which must be a start.
  GlobalBatch batch_at(int64_t position) const;
  // Row `row` of the whole global batch, 0 <= row < batch.rows.
  SamplePlace place(const GlobalBatch& batch, int64_t row) const;

  // Batches are numbered from 0 over all epochs. Those that start before `position`:
  int64_t batches_before(int64_t position) const;
  int64_t position_of(int64_t batch) const;
  // The size of batches there; the last ones of an epoch may be smaller.
  int64_t batch_size_at(int64_t position) const { return stretch_at(position).plan->batch_size(); }
  // Passes over the data before `position`.
  double epochs_before(int64_t position) const;
  // How far a training is after `batches` batches; see Note [Batches that change their size]. Of
  // batches of one size, their number.
  double first_size_steps(int64_t batches) const;

 private:
  // Batches of one size, up to the next stretch.
  struct Stretch {
    int64_t position = 0;
    int64_t batch = 0;              // batches before it
    int64_t epoch = 0, offset = 0;  // where it starts
    std::vector<int64_t> draws;     // streams: [sets] samples handed out before it
    std::shared_ptr<const EpochPlan> plan;
    std::shared_ptr<const BatchTurns> turns;  // of a mix with tiles
  };

  void plan_tiles();
  void plan_repeats(double num_repeats);
  void begin_stretch(Stretch stretch, int64_t batch_size);
  void check_can_change(const BatchSizeChange& change) const;
  void check_start(const BatchSizeChange& change) const;
  const Stretch& stretch_at(int64_t position) const;
  std::pair<int64_t, int64_t> epoch_and_offset(const Stretch& stretch, int64_t position) const;
  bool is_one_exact_set() const { return mix_.mode == MixMode::kExact && num_sets() == 1; }
  void find_set(const Stretch& stretch, int64_t number, GlobalBatch& batch) const;
  SamplePlace shuffled(int64_t set, int64_t place, int64_t cycle) const;
  SamplePlace in_stream(int64_t set, int64_t draw) const;

  MixOptions mix_;
  std::optional<RepeatedAugmentation> repeats_;
  std::vector<int64_t> epoch_sizes_;  // [sets] samples handed out in an epoch of kExact
  uint64_t seed_;
  bool is_shuffled_;
  bool drop_last_;
  std::vector<uint64_t> seeds_;      // of each set's order
  std::vector<int64_t> group_ends_;  // kRankGroups: ranks of groups 0 to g
  // [sets], null for a set that is shuffled as a whole; shared by copies of the order.
  std::vector<std::shared_ptr<const TileOrder>> tile_orders_;
  std::vector<Stretch> stretches_;  // the first one from position 0 on
};

}  // namespace fovea::data
