#include "fovea/elastic/solve/unit_search.h"

#include <algorithm>
#include <utility>

namespace fovea::elastic {
namespace {

constexpr double kNoChoice = std::numeric_limits<double>::infinity();

}  // namespace

UnitSearch::UnitSearch(std::vector<UnitWays> ways, std::vector<int64_t> limits, int64_t units,
                       int64_t workers)
    : ways_(std::move(ways)), limits_(std::move(limits)), units_(units), workers_(workers) {}

UnitChoice UnitSearch::run(double below) const {
  const double bound = least_ms(below);
  if (!(bound < below)) return {};
  if (auto choice = greedy(bound)) return *choice;
  return exact(below);
}

int64_t UnitSearch::most_workers(size_t kind, double ms) const {
  const auto& ways = ways_[kind];
  for (auto w = static_cast<int64_t>(ways.size()) - 1; w >= 1; --w) {
    if (ways[static_cast<size_t>(w)].ms <= ms) return w;
  }
  return 0;
}

bool UnitSearch::holds(double ms) const {
  std::vector<std::pair<int64_t, int64_t>> most;  // workers, units
  for (size_t kind = 0; kind < ways_.size(); ++kind) {
    const auto w = most_workers(kind, ms);
    if (w > 0 && limits_[kind] > 0) most.emplace_back(w, limits_[kind]);
  }
  std::sort(most.rbegin(), most.rend());
  int64_t units = 0, workers = 0;
  for (const auto& [w, limit] : most) {
    const auto taken = std::min(units_ - units, limit);
    units += taken;
    workers += taken * w;
  }
  return units == units_ && workers >= workers_;
}

// No choice takes less: of all times of ways the least within which the units hold the workers.
double UnitSearch::least_ms(double below) const {
  std::vector<double> times;
  for (const auto& ways : ways_) {
    for (const auto& way : ways) {
      if (way.ms < below) times.push_back(way.ms);
    }
  }
  std::sort(times.begin(), times.end());
  size_t low = 0, high = times.size();
  while (low < high) {
    const auto middle = (low + high) / 2;
    if (holds(times[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low < times.size() ? times[low] : kNoChoice;
}

// The units with the most workers within ms, brought down to exactly what is needed.
std::optional<UnitChoice> UnitSearch::greedy(double ms) const {
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t kind = 0; kind < ways_.size(); ++kind) {
    if (limits_[kind] > 0) order.emplace_back(most_workers(kind, ms), kind);
  }
  std::sort(order.rbegin(), order.rend());
  UnitChoice choice{.ms = ms, .workers = std::vector<std::vector<int64_t>>(ways_.size())};
  int64_t units = 0, excess = -workers_;
  for (const auto& [w, kind] : order) {
    const auto taken = std::min(units_ - units, limits_[kind]);
    choice.workers[kind].assign(static_cast<size_t>(taken), w);
    units += taken;
    excess += taken * w;
  }
  for (size_t kind = 0; kind < ways_.size(); ++kind) {
    for (auto& w : choice.workers[kind]) {
      auto less = w;
      for (auto to = w - 1; to >= 1 && w - to <= excess; --to) {
        if (ways_[kind][static_cast<size_t>(to)].ms <= ms) less = to;
      }
      excess -= w - less;
      w = less;
    }
  }
  if (excess != 0) return {};
  choice.ms = slowest(choice);
  return choice;
}

double UnitSearch::slowest(const UnitChoice& choice) const {
  double ms = 0;
  for (size_t kind = 0; kind < ways_.size(); ++kind) {
    for (const auto w : choice.workers[kind]) {
      ms = std::max(ms, ways_[kind][static_cast<size_t>(w)].ms);
    }
  }
  return ms;
}

// Dynamic programming over units: the least time of the slowest, by units and workers so far.
UnitChoice UnitSearch::exact(double below) const {
  std::vector<size_t> kinds;  // of each unit
  for (size_t kind = 0; kind < ways_.size(); ++kind) {
    kinds.insert(kinds.end(), static_cast<size_t>(limits_[kind]), kind);
  }
  const auto at = [&](int64_t units, int64_t workers) {
    return static_cast<size_t>(units * (workers_ + 1) + workers);
  };
  std::vector<double> least(at(units_, workers_) + 1, kNoChoice);
  least[0] = 0;
  // By unit: the workers that it runs where `least` is so; 0: it does not take part.
  std::vector<std::vector<int32_t>> taken;
  for (const auto kind : kinds) {
    auto next = least;
    taken.emplace_back(least.size(), 0);
    for (int64_t w = 1; w < static_cast<int64_t>(ways_[kind].size()); ++w) {
      const double ms = ways_[kind][static_cast<size_t>(w)].ms;
      if (!(ms < below)) continue;
      for (int64_t units = 0; units < units_; ++units) {
        for (int64_t workers = 0; workers + w <= workers_; ++workers) {
          const double both = std::max(ms, least[at(units, workers)]);
          const auto cell = at(units + 1, workers + w);
          if (!(both < next[cell])) continue;
          next[cell] = both;
          taken.back()[cell] = static_cast<int32_t>(w);
        }
      }
    }
    least = std::move(next);
  }
  UnitChoice choice{.ms = least[at(units_, workers_)],
                    .workers = std::vector<std::vector<int64_t>>(ways_.size())};
  if (choice.ms == kNoChoice) return choice;
  int64_t units = units_, workers = workers_;
  for (size_t i = kinds.size(); i-- > 0;) {
    const auto w = taken[i][at(units, workers)];
    if (w == 0) continue;
    choice.workers[kinds[i]].push_back(w);
    --units;
    workers -= w;
  }
  return choice;
}

}  // namespace fovea::elastic
