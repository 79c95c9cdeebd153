#include "fovea/data/order/sample_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/order/permutation.h"

namespace fovea::data {
namespace {

uint64_t named_seed(uint64_t seed, const std::string& name) {
  const PhiloxKey key = philox_key(seed, name);
  return uint64_t{key[1]} << 32 | key[0];
}

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Position in sorted ends: the first range that ends after `value`.
int64_t range_of(const std::vector<int64_t>& ends, int64_t value) {
  return std::upper_bound(ends.begin(), ends.end(), value) - ends.begin();
}

// Where range `range` starts.
int64_t start_of(const std::vector<int64_t>& ends, int64_t range) {
  return range == 0 ? 0 : ends[static_cast<size_t>(range - 1)];
}

std::vector<int64_t> running_sum(const std::vector<int64_t>& values) {
  std::vector<int64_t> sums(values.size());
  std::partial_sum(values.begin(), values.end(), sums.begin());
  return sums;
}

// `total` split in proportion to weights, by largest remainders; ties go to the earlier one.
std::vector<int64_t> apportion(int64_t total, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> parts;
  std::vector<double> remainders;
  for (const double weight : weights) {
    const double share = static_cast<double>(total) * (weight / sum);
    parts.push_back(static_cast<int64_t>(std::floor(share)));
    remainders.push_back(share - std::floor(share));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  int64_t left = total - std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++parts[order[i]];
  return parts;
}

}  // namespace

MixMode mix_mode(const std::string& name) {
  if (name == "exact") return MixMode::kExact;
  if (name == "cycle_to_largest") return MixMode::kCycleToLargest;
  if (name == "weights") return MixMode::kWeights;
  if (name == "rank_groups") return MixMode::kRankGroups;
  fail<ConfigError>("mix={}; expected exact, cycle_to_largest, weights or rank_groups", name);
}

SampleOrder::SampleOrder(const SampleOrderOptions& options)
    : mix_(options.mix),
      batch_size_(options.global_batch_size),
      seed_(options.seed),
      is_shuffled_(options.shuffle),
      drop_last_(options.drop_last) {
  if (batch_size_ < 1) {
    fail<ConfigError>("global_batch_size={}; expected a number above 0", batch_size_);
  }
  FOVEA_CHECK(!mix_.set_sizes.empty(), "no sets; expected at least one");
  for (size_t set = 0; set < mix_.set_sizes.size(); ++set) {
    const int64_t size = mix_.set_sizes[set];
    FOVEA_CHECK(size > 0, "{} has {} samples; expected at least one", name_of(set), size);
    // The first set's order is that of a loader with one set.
    seeds_.push_back(set == 0 ? seed_ : named_seed(seed_, fmt::format("set {}", set)));
  }
  epoch_sizes_ = mix_.set_sizes;
  plan_tiles();
  if (options.num_repeats != 1) plan_repeats(options.num_repeats);
  if (mix_.mode == MixMode::kExact) {
    plan_exact();
  } else if (mix_.mode == MixMode::kRankGroups) {
    plan_rank_groups();
  } else {
    plan_streams();
  }
  const bool has_tiles = std::any_of(tile_orders_.begin(), tile_orders_.end(),
                                     [](const auto& order) { return order != nullptr; });
  if (has_tiles && num_sets() > 1 && mix_.mode != MixMode::kRankGroups) {
    turns_ = std::make_shared<const BatchTurns>(full_ends_, named_seed(seed_, "batches"));
  }
}

void SampleOrder::plan_tiles() {
  tile_orders_.resize(mix_.set_sizes.size());
  for (size_t set = 0; set < mix_.tiles.size() && is_shuffled_; ++set) {
    TileWindows& tiles = mix_.tiles[set];
    if (tiles.window == 0) continue;
    FOVEA_CHECK(mix_.tiles.size() == mix_.set_sizes.size() && !tiles.ends.empty() &&
                    tiles.ends.back() == mix_.set_sizes[set],
                "{}: windows of tiles of another set", name_of(set));
    tile_orders_[set] = std::make_shared<const TileOrder>(std::move(tiles), seeds_[set]);
  }
}

std::string SampleOrder::name_of(size_t set) const {
  return set < mix_.set_names.size() ? mix_.set_names[set] : fmt::format("set {}", set);
}

void SampleOrder::plan_repeats(double num_repeats) {
  if (num_sets() > 1 || mix_.mode != MixMode::kExact) {
    fail<ConfigError>("repeated augmentation of a mix of sets; it is for one data set");
  }
  repeats_.emplace(mix_.set_sizes[0], num_repeats);
  epoch_sizes_[0] = repeats_->samples_per_epoch();
}

void SampleOrder::plan_exact() {
  std::vector<int64_t> full;
  for (size_t set = 0; set < epoch_sizes_.size(); ++set) {
    const int64_t size = epoch_sizes_[set];
    full.push_back(size / batch_size_);
    if (!drop_last_ && size % batch_size_ != 0) rests_.push_back(static_cast<int64_t>(set));
    samples_per_epoch_ += drop_last_ ? size / batch_size_ * batch_size_ : size;
    if (drop_last_ && size < batch_size_) {
      fail<ConfigError>(
          "global_batch_size={} with drop_last, but {} has {} samples, so no batch of it is ever "
          "full; use a smaller batch or drop_last: false",
          batch_size_, num_sets() == 1 ? "the data set" : name_of(set), size);
    }
  }
  full_ends_ = running_sum(full);
  batches_per_epoch_ = full_ends_.back() + static_cast<int64_t>(rests_.size());
}

std::vector<int64_t> SampleOrder::stream_batches() const {
  const auto& sizes = mix_.set_sizes;
  const auto batches = [&](int64_t samples) {
    return std::max<int64_t>(drop_last_ ? samples / batch_size_ : ceil_divide(samples, batch_size_),
                             1);
  };
  if (mix_.mode == MixMode::kCycleToLargest) {
    return std::vector<int64_t>(sizes.size(),
                                batches(*std::max_element(sizes.begin(), sizes.end())));
  }
  if (mix_.weights.size() != sizes.size()) {
    fail<ConfigError>("{} weights for {} sets; give each set one", mix_.weights.size(),
                      sizes.size());
  }
  for (size_t set = 0; set < sizes.size(); ++set) {
    const double weight = mix_.weights[set];
    if (!(weight > 0) || !std::isfinite(weight)) {
      fail<ConfigError>("{}: weight {}; expected a number above 0", name_of(set), weight);
    }
  }
  return apportion(batches(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})), mix_.weights);
}

void SampleOrder::plan_streams() {
  const auto batches = stream_batches();
  full_ends_ = running_sum(batches);
  batches_per_epoch_ = full_ends_.back();
  samples_per_epoch_ = batches_per_epoch_ * batch_size_;
  for (size_t set = 0; set < batches.size(); ++set) {
    if (batches[set] > 0) continue;
    fail<ConfigError>(
        "{}: weight {} gives it none of an epoch's {} batches; raise its weight or use a smaller "
        "global_batch_size",
        name_of(set), mix_.weights[set], batches_per_epoch_);
  }
}

void SampleOrder::plan_rank_groups() {
  const auto& groups = mix_.rank_groups;
  if (groups.size() != mix_.set_sizes.size()) {
    fail<ConfigError>("rank groups: {} for {} sets; give each set its number of ranks",
                      groups.size(), mix_.set_sizes.size());
  }
  group_ends_ = running_sum(groups);
  const int64_t ranks = group_ends_.back();
  if (*std::min_element(groups.begin(), groups.end()) < 1) {
    fail<ConfigError>("rank groups: a set has no rank; each needs at least one");
  }
  if (batch_size_ % ranks != 0) {
    fail<ConfigError>("global_batch_size={} over the {} ranks of the rank groups; use a multiple",
                      batch_size_, ranks);
  }
  auto batches = mix_.batches_per_rank;
  if (batches.empty()) {
    for (size_t set = 0; set < groups.size(); ++set) {
      const int64_t rows = batch_size_ / ranks;
      batches.push_back(std::max<int64_t>(mix_.set_sizes[set] / groups[set] / rows, 1));
    }
  }
  if (batches.size() != groups.size()) {
    fail<ConfigError>("batches_per_rank_epoch: {} numbers for {} sets; give each set one",
                      batches.size(), groups.size());
  }
  batches_per_epoch_ = *std::max_element(batches.begin(), batches.end());
  if (batches_per_epoch_ < 1) fail<ConfigError>("batches_per_rank_epoch: no batch in an epoch");
  samples_per_epoch_ = batches_per_epoch_ * batch_size_;
}

int64_t SampleOrder::batches_of(int64_t set) const {
  if (mix_.mode == MixMode::kRankGroups) return batches_per_epoch_;
  const int64_t rest = std::count(rests_.begin(), rests_.end(), set);
  return full_ends_[static_cast<size_t>(set)] - start_of(full_ends_, set) + rest;
}

bool SampleOrder::is_start(int64_t position) const {
  if (position < 0) return false;
  int64_t offset = position % samples_per_epoch_;
  if (mix_.mode == MixMode::kRankGroups) return offset % batch_size_ == 0;
  const int64_t full = full_ends_.back() * batch_size_;
  if (offset < full) return offset % batch_size_ == 0;
  offset -= full;
  for (const int64_t set : rests_) {
    if (offset <= 0) break;
    offset -= epoch_sizes_[static_cast<size_t>(set)] % batch_size_;
  }
  return offset == 0;
}

GlobalBatch SampleOrder::batch_at(int64_t position) const {
  FOVEA_CHECK(is_start(position), "position={}: no batch starts there", position);
  GlobalBatch plan{
      .position = position, .epoch = position / samples_per_epoch_, .rows = batch_size_};
  const int64_t offset = position % samples_per_epoch_;
  if (mix_.mode == MixMode::kRankGroups) {
    plan.set = -1;
    plan.number = offset / batch_size_;
    return plan;
  }
  const int64_t num_full = full_ends_.back();
  if (offset < num_full * batch_size_) {
    int64_t number = offset / batch_size_;
    if (is_shuffled_ && num_sets() > 1) {
      number = Permutation(num_full, named_seed(seed_, "batches"), plan.epoch)(number);
    }
    plan.set = range_of(full_ends_, number);
    plan.number = number - start_of(full_ends_, plan.set);
    if (turns_ && tile_orders_[static_cast<size_t>(plan.set)]) {
      plan.number = turns_->number(offset / batch_size_, plan.epoch);
    }
    return plan;
  }
  int64_t before = num_full * batch_size_;
  for (const int64_t set : rests_) {
    plan.set = set;
    plan.rows = epoch_sizes_[static_cast<size_t>(set)] % batch_size_;
    if (before == offset) break;
    before += plan.rows;
  }
  plan.number = full_ends_[static_cast<size_t>(plan.set)] - start_of(full_ends_, plan.set);
  return plan;
}

SamplePlace SampleOrder::shuffled(int64_t set, int64_t place, int64_t cycle) const {
  const auto i = static_cast<size_t>(set);
  if (tile_orders_[i]) return {set, tile_orders_[i]->at(place, cycle), cycle};
  if (is_shuffled_) place = Permutation(mix_.set_sizes[i], seeds_[i], cycle)(place);
  return {set, place, cycle};
}

SamplePlace SampleOrder::in_stream(int64_t set, int64_t draw) const {
  const int64_t size = mix_.set_sizes[static_cast<size_t>(set)];
  return shuffled(set, draw % size, draw / size);
}

SamplePlace SampleOrder::place(const GlobalBatch& batch, int64_t row) const {
  FOVEA_CHECK(row >= 0 && row < batch.rows, "row {} of a batch of {}", row, batch.rows);
  if (mix_.mode == MixMode::kExact) {
    const int64_t draw = batch.number * batch_size_ + row;
    if (!repeats_) return shuffled(batch.set, draw, batch.epoch);
    SamplePlace place = shuffled(batch.set, repeats_->order_place(draw), batch.epoch);
    place.repeat = repeats_->repeat(draw);
    return place;
  }
  if (mix_.mode == MixMode::kRankGroups) {
    const int64_t ranks = group_ends_.back();
    const int64_t group = range_of(group_ends_, row % ranks);
    const int64_t group_ranks = mix_.rank_groups[static_cast<size_t>(group)];
    const int64_t group_rank = row % ranks - start_of(group_ends_, group);
    const int64_t step = batch.epoch * batches_per_epoch_ + batch.number;
    const int64_t rows = batch_size_ / ranks * group_ranks;  // of the group in each batch
    return in_stream(group, step * rows + row / ranks * group_ranks + group_rank);
  }
  const int64_t batches = batches_of(batch.set);
  return in_stream(batch.set, (batch.epoch * batches + batch.number) * batch_size_ + row);
}

}  // namespace fovea::data
