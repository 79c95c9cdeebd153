#include "fovea/elastic/solve/set_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace fovea::elastic {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();
// Sums in another order differ in their last bits: less than that is no gain.
constexpr double kGain = 1 - 1e-12;
// What is free costs next to nothing instead: fewer devices, and faster ones, stay the better ones.
constexpr double kLeastPrice = 1e-9;

}  // namespace

SetSearch::SetSearch(const SolveModel& model, std::vector<int64_t> counts, bool between_nodes,
                     const SolveOptions& options, CountSolution& best)
    : model_(model),
      counts_(std::move(counts)),
      between_nodes_(between_nodes),
      options_(options),
      best_(best),
      best_ms_(best.is_found ? best.ms : kNoTime),
      networks_(counts_.size()) {}

void SetSearch::run(int64_t fewest, int64_t most) {
  most = std::min(most, options_.global_batch);
  if (fewest > most) return;
  for (size_t kind = 0; kind < counts_.size(); ++kind) {
    if (counts_[kind] > 0) networks_[kind].assign(static_cast<size_t>(most) + 1, {-1, -1});
  }
  if (options_.cost_weight > 0) {
    search_objective(fewest, most);
    return;
  }
  search_time(fewest, most);
  if (best_ms_ < kNoTime) search_price(best_ms_, fewest, most);
}

const NetworkTime& SetSearch::network(size_t kind, int64_t devices) {
  auto& time = networks_[kind][static_cast<size_t>(devices)];
  if (time.last < 0) {
    time = model_.network().time(model_.kinds()[kind].host, devices, between_nodes_);
  }
  return time;
}

std::vector<KindOffer> SetSearch::all_offers() const {
  std::vector<KindOffer> all(counts_.size());
  for (size_t kind = 0; kind < counts_.size(); ++kind) {
    all[kind] = {.count = counts_[kind],
                 .capacity = 1,
                 .price = std::max(model_.kinds()[kind].price, kLeastPrice)};
  }
  return all;
}

std::vector<KindOffer> SetSearch::offers(double ms, int64_t devices) {
  auto all = all_offers();
  for (size_t kind = 0; kind < counts_.size(); ++kind) {
    if (counts_[kind] < 1) continue;
    all[kind].capacity =
        model_.kinds()[kind].model->capacity(ms, network(kind, devices), options_.global_batch);
  }
  return all;
}

bool SetSearch::holds(double ms, int64_t devices) {
  const auto held = most_samples(offers(ms, devices), devices);
  return held.devices == devices && held.samples >= options_.global_batch;
}

bool SetSearch::may_hold(double ms, int64_t fewest, int64_t most) {
  const auto held = most_samples(offers(ms, fewest), most);
  return held.devices >= fewest && held.samples >= options_.global_batch;
}

double SetSearch::snapped(double ms, int64_t devices) {
  double last = 0;
  for (size_t kind = 0; kind < counts_.size(); ++kind) {
    if (counts_[kind] < 1) continue;
    const auto& device = *model_.kinds()[kind].model;
    const auto& time = network(kind, devices);
    const auto capacity = device.capacity(ms, time, options_.global_batch);
    if (capacity > 0) last = std::max(last, device.milliseconds(capacity, time));
  }
  return last;
}

double SetSearch::next(double ms, int64_t devices) {
  double first = kNoTime;
  for (size_t kind = 0; kind < counts_.size(); ++kind) {
    if (counts_[kind] < 1) continue;
    const auto& device = *model_.kinds()[kind].model;
    const auto& time = network(kind, devices);
    const auto capacity = device.capacity(ms, time, options_.global_batch);
    if (capacity >= options_.global_batch) continue;
    first = std::min(first, device.milliseconds(capacity + 1, time));
  }
  return first;
}

double SetSearch::least_ms(int64_t devices, double cap) {
  const auto equal = (options_.global_batch + devices - 1) / devices;
  double high = 0, low = 0;
  for (size_t kind = 0; kind < counts_.size(); ++kind) {
    if (counts_[kind] < 1) continue;
    const auto& device = *model_.kinds()[kind].model;
    high = std::max(high, device.milliseconds(equal, network(kind, devices)));
  }
  high = std::min(high, cap);
  if (!holds(high, devices)) return kNoTime;
  high = snapped(high, devices);
  for (;;) {
    const double first = next(low, devices);
    if (first >= high) return high;
    if (holds(first, devices)) return first;
    low = first;
    const double middle = low + (high - low) / 2;
    if (holds(middle, devices)) {
      high = snapped(middle, devices);
    } else {
      low = middle;
    }
  }
}

// By halves of the numbers of devices, the largest number of each half first: it is often the best.
void SetSearch::search_time(int64_t fewest, int64_t most) {
  if (fewest > most) return;
  const double below = std::nextafter(best_ms_, 0.0);
  if (best_ms_ < kNoTime && !may_hold(below, fewest, most)) return;
  best_ms_ = std::min(best_ms_, least_ms(most, best_ms_));
  if (fewest == most) return;
  const auto middle = fewest + (most - 1 - fewest) / 2;
  search_time(middle + 1, most - 1);
  search_time(fewest, middle);
}

void SetSearch::search_price(double ms, int64_t fewest, int64_t most) {
  if (!may_hold(ms, fewest, most)) return;
  if (best_.is_found && best_.objective <= ms &&
      least_price(all_offers(), fewest) >= best_.price * kGain) {
    return;
  }
  if (fewest < most) {
    const auto middle = fewest + (most - fewest) / 2;
    search_price(ms, fewest, middle);
    return search_price(ms, middle + 1, most);
  }
  if (!holds(ms, fewest)) return;
  const double below = best_.is_found && best_.objective <= ms ? best_.price : kNoTime;
  const auto choice = cheapest_choice(offers(ms, fewest), fewest, options_.global_batch, below);
  if (choice) take(ms, fewest, *choice);
}

// Above this time, devices of the least price are no gain.
double SetSearch::ms_that_gains(int64_t fewest) const {
  if (!best_.is_found) return std::numeric_limits<double>::max();
  const double price = least_price(all_offers(), fewest);
  return best_.objective / std::pow(price, options_.cost_weight);
}

void SetSearch::search_objective(int64_t fewest, int64_t most) {
  const double cap = ms_that_gains(fewest);
  if (!may_hold(cap, fewest, most)) return;
  if (fewest < most) {
    const auto middle = fewest + (most - fewest) / 2;
    search_objective(fewest, middle);
    return search_objective(middle + 1, most);
  }
  const double low = least_ms(fewest, cap);
  if (low == kNoTime) return;
  // First the fastest choice: it rules out most of the rest.
  const auto choice = cheapest_choice(offers(low, fewest), fewest, options_.global_batch, kNoTime);
  if (choice) take(low, fewest, *choice);
  const double slowest = std::min(ms_that_gains(fewest), 1e15);
  if (slowest > low) search_intervals(fewest, low, snapped(slowest, fewest));
}

void SetSearch::search_intervals(int64_t devices, double low, double high) {
  if (low > high) return;
  const auto at_high = offers(high, devices);
  const double below =
      best_.is_found ? std::pow(best_.objective * kGain / low, 1 / options_.cost_weight) : kNoTime;
  if (price_bound(at_high, devices, options_.global_batch, below) >= below) return;
  if (low == high) {
    const auto choice = cheapest_choice(at_high, devices, options_.global_batch, below);
    if (choice) take(low, devices, *choice);
    return;
  }
  double middle = low + (high - low) / 2;
  if (middle >= high) middle = low;  // neighbours
  const double left = std::max(low, snapped(middle, devices));
  search_intervals(devices, low, left);
  search_intervals(devices, next(left, devices), high);
}

bool SetSearch::is_better(double objective, double price) const {
  if (!best_.is_found || objective < best_.objective * kGain) return true;
  return objective <= best_.objective && price < best_.price * kGain;
}

void SetSearch::take(double ms, int64_t devices, const std::vector<int64_t>& choice) {
  const auto here = offers(ms, devices);
  const double price = price_of(here, choice);
  const double objective =
      options_.cost_weight > 0 ? ms * std::pow(price, options_.cost_weight) : ms;
  if (!is_better(objective, price)) return;
  best_ = {.is_found = true,
           .ms = ms,
           .price = price,
           .objective = objective,
           .between_nodes = between_nodes_,
           .devices = devices};
  for (size_t kind = 0; kind < choice.size(); ++kind) {
    best_.kinds.push_back({.devices = choice[kind], .most_samples = here[kind].capacity});
  }
}

}  // namespace fovea::elastic
