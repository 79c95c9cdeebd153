#include "fovea/data/order/sample_order.h"

#include <algorithm>
#include <iterator>
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

int64_t batches_in(int64_t samples, int64_t size) { return (samples + size - 1) / size; }

}  // namespace

SampleOrder::SampleOrder(const SampleOrderOptions& options)
    : mix_(options.mix),
      seed_(options.seed),
      is_shuffled_(options.shuffle),
      drop_last_(options.drop_last) {
  const int64_t batch_size = options.global_batch_size;
  if (batch_size < 1) {
    fail<ConfigError>("global_batch_size={}; expected a number above 0", batch_size);
  }
  FOVEA_CHECK(!mix_.set_sizes.empty(), "no sets; expected at least one");
  for (size_t set = 0; set < mix_.set_sizes.size(); ++set) {
    const int64_t size = mix_.set_sizes[set];
    FOVEA_CHECK(size > 0, "{} has {} samples; expected at least one", mix_.name_of(set), size);
    // The first set's order is that of a loader with one set.
    seeds_.push_back(set == 0 ? seed_ : named_seed(seed_, fmt::format("set {}", set)));
  }
  epoch_sizes_ = mix_.set_sizes;
  plan_tiles();
  if (options.num_repeats != 1) plan_repeats(options.num_repeats);
  begin_stretch({}, batch_size);
  std::partial_sum(mix_.rank_groups.begin(), mix_.rank_groups.end(),
                   std::back_inserter(group_ends_));
  for (const auto& change : options.batch_schedule) append(change);
}

void SampleOrder::plan_tiles() {
  tile_orders_.resize(mix_.set_sizes.size());
  for (size_t set = 0; set < mix_.tiles.size() && is_shuffled_; ++set) {
    TileWindows& tiles = mix_.tiles[set];
    if (tiles.window == 0) continue;
    FOVEA_CHECK(mix_.tiles.size() == mix_.set_sizes.size() && !tiles.ends.empty() &&
                    tiles.ends.back() == mix_.set_sizes[set],
                "{}: windows of tiles of another set", mix_.name_of(set));
    tile_orders_[set] = std::make_shared<const TileOrder>(std::move(tiles), seeds_[set]);
  }
}

void SampleOrder::plan_repeats(double num_repeats) {
  if (!is_one_exact_set()) {
    fail<ConfigError>("repeated augmentation of a mix of sets; it is for one data set");
  }
  repeats_.emplace(mix_.set_sizes[0], num_repeats);
  epoch_sizes_[0] = repeats_->samples_per_epoch();
}

void SampleOrder::begin_stretch(Stretch stretch, int64_t batch_size) {
  stretch.draws.resize(mix_.set_sizes.size());
  stretch.plan = std::make_shared<const EpochPlan>(mix_, epoch_sizes_, batch_size, drop_last_);
  const bool has_tiles = std::any_of(tile_orders_.begin(), tile_orders_.end(),
                                     [](const auto& order) { return order != nullptr; });
  if (has_tiles && num_sets() > 1 && mix_.mode != MixMode::kRankGroups) {
    stretch.turns =
        std::make_shared<const BatchTurns>(stretch.plan->full_ends(), named_seed(seed_, "batches"));
  }
  stretches_.push_back(std::move(stretch));
}

const SampleOrder::Stretch& SampleOrder::stretch_at(int64_t position) const {
  const auto behind = std::upper_bound(
      stretches_.begin(), stretches_.end(), position,
      [](int64_t value, const Stretch& stretch) { return value < stretch.position; });
  return *std::prev(behind);
}

std::pair<int64_t, int64_t> SampleOrder::epoch_and_offset(const Stretch& stretch,
                                                          int64_t position) const {
  const int64_t samples = stretch.plan->samples();
  const int64_t since = position - stretch.position + stretch.offset;  // its first epoch began
  return {stretch.epoch + since / samples, since % samples};
}

int64_t SampleOrder::batches_before(int64_t position) const {
  const Stretch& stretch = stretch_at(position);
  const EpochPlan& plan = *stretch.plan;
  int64_t since = position - stretch.position;
  const int64_t rest = stretch.offset == 0 ? 0 : plan.samples() - stretch.offset;  // of its epoch
  if (since < rest) return stretch.batch + batches_in(since, plan.batch_size());
  since -= rest;
  return stretch.batch + batches_in(rest, plan.batch_size()) +
         since / plan.samples() * plan.batches() + plan.batches_before(since % plan.samples());
}

int64_t SampleOrder::position_of(int64_t batch) const {
  const auto behind =
      std::upper_bound(stretches_.begin(), stretches_.end(), batch,
                       [](int64_t value, const Stretch& stretch) { return value < stretch.batch; });
  const Stretch& stretch = *std::prev(behind);
  const EpochPlan& plan = *stretch.plan;
  const int64_t rest = stretch.offset == 0 ? 0 : plan.samples() - stretch.offset;
  const int64_t in_rest = batches_in(rest, plan.batch_size());
  batch -= stretch.batch;
  if (batch < in_rest) return stretch.position + batch * plan.batch_size();
  batch -= in_rest;
  return stretch.position + rest + batch / plan.batches() * plan.samples() +
         plan.start_of(batch % plan.batches());
}

bool SampleOrder::is_start(int64_t position) const {
  return position >= 0 && position_of(batches_before(position)) == position;
}

double SampleOrder::epochs_before(int64_t position) const {
  if (stretches_.size() == 1 || mix_.mode == MixMode::kExact) {
    return static_cast<double>(position) / static_cast<double>(samples_per_epoch());
  }
  const Stretch& stretch = stretch_at(position);
  const auto [epoch, offset] = epoch_and_offset(stretch, position);
  return static_cast<double>(epoch) +
         static_cast<double>(offset) / static_cast<double>(stretch.plan->samples());
}

double SampleOrder::first_size_steps(int64_t batches) const {
  if (stretches_.size() == 1) return static_cast<double>(batches);
  const int64_t position = position_of(batches);
  const EpochPlan& first = *stretches_.front().plan;
  const EpochPlan& here = *stretch_at(position).plan;
  const auto [epoch, offset] = epoch_and_offset(stretch_at(position), position);
  auto offset_of_first = static_cast<double>(offset);
  if (here.samples() != first.samples()) {
    offset_of_first *= static_cast<double>(first.samples()) / static_cast<double>(here.samples());
  }
  return static_cast<double>(epoch * first.batches()) + first.steps_before(offset_of_first);
}

GlobalBatch SampleOrder::batch_at(int64_t position) const {
  FOVEA_CHECK(is_start(position), "position={}: no batch starts there", position);
  const Stretch& stretch = stretch_at(position);
  const EpochPlan& plan = *stretch.plan;
  const auto [epoch, offset] = epoch_and_offset(stretch, position);
  GlobalBatch batch{.position = position, .epoch = epoch};
  if (is_one_exact_set()) {
    batch.rows = std::min(plan.batch_size(), plan.samples() - offset);
    batch.first = offset;
    return batch;
  }
  const int64_t number = plan.batches_before(offset);
  batch.rows = plan.start_of(number + 1) - offset;
  if (mix_.mode == MixMode::kRankGroups) {
    batch.set = -1;
    batch.first = epoch * plan.batches() + number;
    return batch;
  }
  find_set(stretch, number, batch);
  return batch;
}

// Of a mix; number: of the batch in its epoch.
void SampleOrder::find_set(const Stretch& stretch, int64_t number, GlobalBatch& batch) const {
  const EpochPlan& plan = *stretch.plan;
  const auto& ends = plan.full_ends();
  int64_t before = 0;  // batches of its set
  if (number < plan.full_batches()) {
    int64_t permuted = number;
    if (is_shuffled_ && num_sets() > 1) {
      permuted = Permutation(ends.back(), named_seed(seed_, "batches"), batch.epoch)(number);
    }
    batch.set = range_holding(ends, permuted);
    before = permuted - range_start(ends, batch.set);
    if (stretch.turns && tile_orders_[static_cast<size_t>(batch.set)]) {
      before = stretch.turns->number(number, batch.epoch);
    }
  } else {
    batch.set = plan.rests().at(static_cast<size_t>(number - plan.full_batches()));
    before = ends[static_cast<size_t>(batch.set)] - range_start(ends, batch.set);
  }
  if (mix_.mode != MixMode::kExact) {
    before += (batch.epoch - stretch.epoch) * plan.batches_of(batch.set);
  }
  batch.first = stretch.draws[static_cast<size_t>(batch.set)] + before * plan.batch_size();
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
    const int64_t draw = batch.first + row;
    if (!repeats_) return shuffled(batch.set, draw, batch.epoch);
    SamplePlace place = shuffled(batch.set, repeats_->order_place(draw), batch.epoch);
    place.repeat = repeats_->repeat(draw);
    return place;
  }
  if (mix_.mode == MixMode::kRankGroups) {
    const int64_t ranks = group_ends_.back();
    const int64_t rank_rows = batch.rows / ranks, rank = row / rank_rows;
    const int64_t group = range_holding(group_ends_, rank);
    const int64_t group_ranks = mix_.rank_groups[static_cast<size_t>(group)];
    const int64_t group_rank = rank - range_start(group_ends_, group);
    const int64_t rows = rank_rows * group_ranks;  // of the group in each batch
    return in_stream(group, batch.first * rows + row % rank_rows * group_ranks + group_rank);
  }
  return in_stream(batch.set, batch.first + row);
}

}  // namespace fovea::data
