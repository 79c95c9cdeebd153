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
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/order/batch_turns.h"
#include "fovea/data/order/repeated_augmentation.h"
#include "fovea/data/order/tile_order.h"

namespace fovea::data {

enum class MixMode { kExact, kCycleToLargest, kWeights, kRankGroups };

// "exact", "cycle_to_largest", "weights", "rank_groups"; throws ConfigError for another name.
MixMode mix_mode(const std::string& name);

// How several sets share the batches.
struct MixOptions {
  MixMode mode = MixMode::kExact;
  std::vector<int64_t> set_sizes = {};         // samples of each set
  std::vector<double> weights = {};            // kWeights: one a set, above 0
  std::vector<int64_t> rank_groups = {};       // kRankGroups: ranks of each set
  std::vector<int64_t> batches_per_rank = {};  // kRankGroups: of each set; empty: whole batches
  std::vector<std::string> set_names = {};     // for messages; empty: their numbers
  std::vector<TileWindows> tiles = {};         // [sets] or empty: see Note [Windows of tiles]
};

struct SampleOrderOptions {
  MixOptions mix = {};
  int64_t global_batch_size = 256;
  uint64_t seed = 42;
  bool shuffle = true;
  bool drop_last = false;
  double num_repeats = 1;  // above 1: each sample so often in a row; of one set only
};

// One global batch.
struct GlobalBatch {
  int64_t position = 0;  // samples before it, over all epochs
  int64_t epoch = 0;
  int64_t rows = 0;    // global; below global_batch_size only in exact
  int64_t set = 0;     // of every row; -1 with rank_groups
  int64_t number = 0;  // of this batch among the epoch's batches of its set
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

  int64_t num_sets() const { return static_cast<int64_t>(mix_.set_sizes.size()); }
  int64_t samples_per_epoch() const { return samples_per_epoch_; }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  // Batches of set s in an epoch.
  int64_t batches_of(int64_t set) const;
  // Whether a batch starts at `position`.
  bool is_start(int64_t position) const;
  // The batch that starts at `position`, which must be a start.
  GlobalBatch batch_at(int64_t position) const;
  // Row `row` of the whole global batch, 0 <= row < batch.rows.
  SamplePlace place(const GlobalBatch& batch, int64_t row) const;

 private:
  void plan_tiles();
  void plan_repeats(double num_repeats);
  void plan_exact();
  void plan_streams();
  void plan_rank_groups();
  std::vector<int64_t> stream_batches() const;
  std::string name_of(size_t set) const;
  SamplePlace shuffled(int64_t set, int64_t place, int64_t cycle) const;
  SamplePlace in_stream(int64_t set, int64_t draw) const;

  MixOptions mix_;
  std::optional<RepeatedAugmentation> repeats_;
  std::vector<int64_t> epoch_sizes_;  // [sets] samples handed out in an epoch of kExact
  int64_t batch_size_;
  uint64_t seed_;
  bool is_shuffled_;
  bool drop_last_;
  int64_t samples_per_epoch_ = 0;
  int64_t batches_per_epoch_ = 0;
  std::vector<uint64_t> seeds_;  // of each set's order
  // [sets], null for a set that is shuffled as a whole; shared by copies of the order.
  std::vector<std::shared_ptr<const TileOrder>> tile_orders_;
  std::shared_ptr<const BatchTurns> turns_;  // of a mix with tiles
  std::vector<int64_t> full_ends_;           // [sets]: full batches of sets 0 to s
  std::vector<int64_t> rests_;               // sets with a smaller batch at the end of an epoch
  std::vector<int64_t> group_ends_;          // kRankGroups: ranks of groups 0 to g
};

}  // namespace fovea::data
