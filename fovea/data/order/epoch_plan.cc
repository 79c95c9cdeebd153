#include "fovea/data/order/epoch_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

std::vector<int64_t> stream_batches(const MixOptions& mix, int64_t batch_size, bool drop_last) {
  const auto& sizes = mix.set_sizes;
  const auto batches = [&](int64_t samples) {
    return std::max<int64_t>(drop_last ? samples / batch_size : ceil_divide(samples, batch_size),
                             1);
  };
  if (mix.mode == MixMode::kCycleToLargest) {
    return std::vector<int64_t>(sizes.size(),
                                batches(*std::max_element(sizes.begin(), sizes.end())));
  }
  if (mix.weights.size() != sizes.size()) {
    fail<ConfigError>("{} weights for {} sets; give each set one", mix.weights.size(),
                      sizes.size());
  }
  for (size_t set = 0; set < sizes.size(); ++set) {
    const double weight = mix.weights[set];
    if (!(weight > 0) || !std::isfinite(weight)) {
      fail<ConfigError>("{}: weight {}; expected a number above 0", mix.name_of(set), weight);
    }
  }
  return apportion(batches(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})), mix.weights);
}

}  // namespace

int64_t range_holding(const std::vector<int64_t>& ends, int64_t value) {
  return std::upper_bound(ends.begin(), ends.end(), value) - ends.begin();
}

int64_t range_start(const std::vector<int64_t>& ends, int64_t range) {
  return range == 0 ? 0 : ends[static_cast<size_t>(range - 1)];
}

EpochPlan::EpochPlan(const MixOptions& mix, const std::vector<int64_t>& set_samples,
                     int64_t batch_size, bool drop_last)
    : batch_size_(batch_size) {
  if (mix.mode == MixMode::kExact) {
    plan_exact(mix, set_samples, drop_last);
  } else if (mix.mode == MixMode::kRankGroups) {
    plan_rank_groups(mix);
  } else {
    plan_streams(mix, drop_last);
  }
}

void EpochPlan::plan_exact(const MixOptions& mix, const std::vector<int64_t>& set_samples,
                           bool drop_last) {
  std::vector<int64_t> full;
  for (size_t set = 0; set < set_samples.size(); ++set) {
    const int64_t size = set_samples[set], rest = size % batch_size_;
    full.push_back(size / batch_size_);
    if (!drop_last && rest != 0) {
      rests_.push_back(static_cast<int64_t>(set));
      rest_sizes_.push_back(rest);
    }
    samples_ += drop_last ? size - rest : size;
    if (drop_last && size < batch_size_) {
      fail<ConfigError>(
          "global_batch_size={} with drop_last, but {} has {} samples, so no batch of it is ever "
          "full; use a smaller batch or drop_last: false",
          batch_size_, mix.num_sets() == 1 ? "the data set" : mix.name_of(set), size);
    }
  }
  full_ends_ = running_sum(full);
  batches_ = full_ends_.back() + static_cast<int64_t>(rests_.size());
}

void EpochPlan::plan_streams(const MixOptions& mix, bool drop_last) {
  const auto batches = stream_batches(mix, batch_size_, drop_last);
  full_ends_ = running_sum(batches);
  batches_ = full_ends_.back();
  samples_ = batches_ * batch_size_;
  for (size_t set = 0; set < batches.size(); ++set) {
    if (batches[set] > 0) continue;
    fail<ConfigError>(
        "{}: weight {} gives it none of an epoch's {} batches; raise its weight or use a smaller "
        "global_batch_size",
        mix.name_of(set), mix.weights[set], batches_);
  }
}

void EpochPlan::plan_rank_groups(const MixOptions& mix) {
  const auto& groups = mix.rank_groups;
  if (groups.size() != mix.set_sizes.size()) {
    fail<ConfigError>("rank groups: {} for {} sets; give each set its number of ranks",
                      groups.size(), mix.set_sizes.size());
  }
  const int64_t ranks = std::accumulate(groups.begin(), groups.end(), int64_t{0});
  if (*std::min_element(groups.begin(), groups.end()) < 1) {
    fail<ConfigError>("rank groups: a set has no rank; each needs at least one");
  }
  if (batch_size_ % ranks != 0) {
    fail<ConfigError>("global_batch_size={} over the {} ranks of the rank groups; use a multiple",
                      batch_size_, ranks);
  }
  auto batches = mix.batches_per_rank;
  if (batches.empty()) {
    for (size_t set = 0; set < groups.size(); ++set) {
      const int64_t rows = batch_size_ / ranks;
      batches.push_back(std::max<int64_t>(mix.set_sizes[set] / groups[set] / rows, 1));
    }
  }
  if (batches.size() != groups.size()) {
    fail<ConfigError>("batches_per_rank_epoch: {} numbers for {} sets; give each set one",
                      batches.size(), groups.size());
  }
  batches_ = *std::max_element(batches.begin(), batches.end());
  if (batches_ < 1) fail<ConfigError>("batches_per_rank_epoch: no batch in an epoch");
  samples_ = batches_ * batch_size_;
}

int64_t EpochPlan::batches_of(int64_t set) const {
  if (full_ends_.empty()) return batches_;
  const int64_t rest = std::count(rests_.begin(), rests_.end(), set);
  return full_ends_[static_cast<size_t>(set)] - range_start(full_ends_, set) + rest;
}

int64_t EpochPlan::batches_before(int64_t offset) const {
  const int64_t full = full_batches();
  int64_t left = offset - full * batch_size_;
  if (left <= 0) return ceil_divide(offset, batch_size_);
  int64_t batches = full;
  for (const int64_t size : rest_sizes_) {
    if (left <= 0) break;
    left -= size;
    ++batches;
  }
  return batches;
}

double EpochPlan::steps_before(double offset) const {
  const auto full = static_cast<double>(full_batches()), size = static_cast<double>(batch_size_);
  if (offset <= full * size) return offset / size;
  double steps = full, left = offset - full * size;
  for (const int64_t rest : rest_sizes_) {
    const auto samples = static_cast<double>(rest);
    if (left < samples) return steps + left / samples;
    left -= samples;
    steps += 1;
  }
  return steps;
}

int64_t EpochPlan::start_of(int64_t batch) const {
  const int64_t full = std::min(batch, full_batches());
  const auto rests = rest_sizes_.begin();
  return std::accumulate(rests, rests + (batch - full), full * batch_size_);
}

}  // namespace fovea::data
