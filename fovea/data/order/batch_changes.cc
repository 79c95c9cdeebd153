// A SampleOrder whose batches change their size.
#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/order/sample_order.h"

namespace fovea::data {
namespace {

std::string change_name(const BatchSizeChange& change) {
  return change.where.empty() ? "batch schedule" : change.where;
}

}  // namespace

void SampleOrder::check_can_change(const BatchSizeChange& change) const {
  if (change.size < 1) {
    fail<ConfigError>("{}: size {}; expected at least one sample in a batch", change_name(change),
                      change.size);
  }
  if (mix_.mode == MixMode::kRankGroups) {
    fail<ConfigError>(
        "{}: batches cannot change their size with mix: rank_groups, where each rank has a fixed "
        "part of a batch; use mix: exact, cycle_to_largest or weights",
        change_name(change));
  }
  if (drop_last_) {
    fail<ConfigError>(
        "{}: batches cannot change their size with drop_last, which leaves out as many samples of "
        "an epoch as its last batch is short of; set drop_last: false",
        change_name(change));
  }
}

void SampleOrder::check_start(const BatchSizeChange& change) const {
  const int64_t position = change.position;
  const Stretch& last = stretches_.back();
  if (position <= last.position) {
    fail<ConfigError>("{}: position {}; expected one behind {}, where the last change is",
                      change_name(change), position, last.position);
  }
  if (!is_start(position)) {
    const int64_t batches = batches_before(position);
    fail<ConfigError>(
        "{}: position {}: no batch starts there; expected the start of one, such as {} or {}",
        change_name(change), position, position_of(batches - 1), position_of(batches));
  }
  const int64_t offset = epoch_and_offset(last, position).second;
  if (is_one_exact_set() || offset == 0) return;
  const int64_t begin = position - offset;  // of the epoch
  fail<ConfigError>(
      "{}: position {} lies within an epoch; expected the start of one, such as {} or {}, as "
      "batches of a mix of sets have one size within it",
      change_name(change), position, begin, begin + last.plan->samples());
}

void SampleOrder::append(const BatchSizeChange& change) {
  const Stretch& last = stretches_.back();
  if (change.position == 0 && stretches_.size() == 1) {
    if (change.size == last.plan->batch_size()) return;
    fail<ConfigError>(
        "{}: the first batches have {} samples, and data.global_batch_size is {}; expected the "
        "same, as the run's steps are counted in batches of that size: set "
        "data.global_batch_size={}",
        change_name(change), change.size, last.plan->batch_size(), change.size);
  }
  check_can_change(change);
  if (stretches_.size() > 1 && change.position == last.position) {  // it has no batch yet
    stretches_.pop_back();
    return append(change);
  }
  check_start(change);
  if (change.size == last.plan->batch_size()) return;  // it changes nothing
  const auto [epoch, offset] = epoch_and_offset(last, change.position);
  Stretch stretch{.position = change.position,
                  .batch = batches_before(change.position),
                  .epoch = epoch,
                  .offset = offset,
                  .draws = last.draws,
                  .plan = {},
                  .turns = {}};
  for (size_t set = 0; set < stretch.draws.size() && mix_.mode != MixMode::kExact; ++set) {
    stretch.draws[set] += (epoch - last.epoch) * last.plan->batches_of(static_cast<int64_t>(set)) *
                          last.plan->batch_size();
  }
  begin_stretch(std::move(stretch), change.size);
}

BatchSchedule SampleOrder::batch_schedule() const {
  BatchSchedule schedule;
  for (const auto& stretch : stretches_) {
    schedule.push_back({stretch.position, stretch.plan->batch_size(), {}});
  }
  return schedule;
}

}  // namespace fovea::data
