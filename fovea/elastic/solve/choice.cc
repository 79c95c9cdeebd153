#include "fovea/elastic/solve/choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fovea::elastic {
namespace {

constexpr size_t kMostPoints = 8;  // of a trajectory, which its next ones follow from

// Of a sample, over the batches that are ahead.
class Objective {
 public:
  Objective(const WorkingSets& sets, std::vector<int64_t> batches)
      : sets_(sets), batches_(std::move(batches)) {}

  double operator()(const WorkingSet& set) const {
    double sum = 0;
    for (const auto batch : batches_) {
      const double ms = batch == sets_.global_batch() ? set.ms : sets_.ms_with_batch(set, batch);
      sum += ms / static_cast<double>(batch);
    }
    const double ms = sum / static_cast<double>(batches_.size());
    const double weight = sets_.cost_weight();
    return weight > 0 ? ms * std::pow(sets_.price_of(set), weight) : ms;
  }

 private:
  const WorkingSets& sets_;
  std::vector<int64_t> batches_;
};

// Now, halfway to the next event, and then; one where they are equal.
std::vector<int64_t> batches_ahead(const WorkingSets& sets, const WorkingSet& working,
                                   const Horizon& horizon) {
  const auto now = sets.global_batch();
  if (horizon.batches.size() < 2 || working.ms <= 0) return {now};
  const double samples =
      horizon.hours * kMillisecondsOfHour / working.ms * static_cast<double>(now);
  std::vector<int64_t> batches = {now};
  for (const double part : {0.5, 1.0}) {
    batches.push_back(predicted_batch(horizon.batches, horizon.samples + part * samples));
  }
  if (batches[1] == now && batches[2] == now) batches.resize(1);
  return batches;
}

}  // namespace

int64_t predicted_batch(const std::vector<BatchPoint>& so_far, double samples) {
  if (so_far.empty()) return 0;
  const auto last = static_cast<double>(so_far.back().global_batch);
  const auto count = std::min(kMostPoints, so_far.size());
  std::vector<double> x, y;
  for (size_t i = so_far.size() - count; i < so_far.size(); ++i) {
    x.push_back(so_far[i].samples);
    y.push_back(std::log(static_cast<double>(so_far[i].global_batch)));
  }
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < count; ++i) {
    mean_x += x[i] / static_cast<double>(count);
    mean_y += y[i] / static_cast<double>(count);
  }
  for (size_t i = 0; i < count; ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (!(xx > 0)) return so_far.back().global_batch;
  const double ahead = std::max(0.0, samples - x.back());
  const double grown = last * std::exp(std::clamp(xy / xx * ahead, -std::log(4.0), std::log(4.0)));
  return std::max<int64_t>(1, std::llround(grown));
}

Choice choose_ours(WorkingSets& sets, const std::vector<bool>& present, const WorkingSet& working,
                   bool has_lost, const Horizon& horizon) {
  Choice choice{.set = sets.ours(present)};
  const auto now = sets.global_batch();
  const auto batches = batches_ahead(sets, working, horizon);
  const Objective objective(sets, batches);
  if (batches.size() > 1 && !choice.set.is_empty()) {
    sets.set_global_batch(batches[1]);
    auto later = sets.ours(present);
    sets.set_global_batch(now);
    later.ms = later.is_empty() ? 0 : sets.ms_with_batch(later, now);
    if (!later.is_empty() && objective(later) < objective(choice.set)) choice.set = later;
  }
  if (has_lost || working.is_empty()) {
    choice.changes = has_lost || !choice.set.is_empty();
    return choice;
  }
  if (choice.set.is_empty()) return choice;
  choice.objective_now = objective(working);
  choice.objective_then = objective(choice.set);
  const double pause = horizon.pause_s / kSecondsOfHour;
  choice.changes =
      choice.objective_then * (horizon.hours + pause) < choice.objective_now * horizon.hours;
  return choice;
}

}  // namespace fovea::elastic
