#include "fovea/elastic/learned_rates.h"

#include <algorithm>
#include <limits>

#include "fovea/core/median.h"

namespace fovea::elastic {
namespace {

double median_or_zero(const std::vector<double>& values) {
  return values.empty() ? 0 : fovea::median(values);
}

}  // namespace

LearnedRates::LearnedRates(const Recording& run, double samples) : run_(run) {
  for (const auto& line : run.lines) {
    if (cut_ != nullptr && line.samples > samples) break;
    cut_ = &line;
    auto& of = steps_[line.generation];
    of.first += static_cast<double>(line.steps) * line.step_s;
    of.second += line.steps;
  }
  for (const auto& event : run.events) {
    if (event.time > cut_->time && !known_.empty()) break;
    known_.push_back(&event);
  }
  take_measured();
  fit();
  scale();
}

ProfileSet LearnedRates::profiles() const {
  ProfileSet set{.source = "a recorded run", .model = "recorded"};
  for (const auto& [worker, row_ms] : row_ms_) {
    DeviceProfile device{.fingerprint = worker, .model = set.model, .dtype = "float32"};
    device.computation = {{.local_batch = 1,
                           .concurrent = 1,
                           .data_ms = 0,
                           .forward_ms = row_ms / 3,
                           .backward_ms = 2 * row_ms / 3,
                           .update_ms = fixed_ms_}};
    device.memory = {{.local_batch = 1, .max_concurrent = 1}};
    set.devices.push_back(std::move(device));
  }
  set.bucket_megabytes = {1};
  for (const auto& [ranks, times] : exchange_) {
    set.communication.push_back({.collective = "all_reduce",
                                 .place = "inter",
                                 .ranks = ranks,
                                 .bytes = 1 << 20,
                                 .ms = median_or_zero(times)});
  }
  if (exchange_.empty()) {
    set.communication.push_back({.collective = "all_reduce", .place = "inter", .ranks = 2});
    set.communication.back().bytes = 1 << 20;
  }
  return set;
}

double LearnedRates::other_ms() const {
  double steps_s = 0, pauses_s = 0;
  for (const auto& [generation, of] : steps_) steps_s += of.first;
  for (const auto* event : known_) {
    if (event != known_.front()) pauses_s += event->pause_s;
  }
  const double all_s = cut_time() - run_.events.front().time;
  return 1000 * std::max(0.0, all_s - steps_s - pauses_s) /
         static_cast<double>(std::max<int64_t>(1, cut_->step - run_.events.front().step));
}

double LearnedRates::pause_s(bool failures) const {
  std::vector<double> known, all;
  for (const auto& event : run_.events) {
    if (&event == &run_.events.front() || is_failure(event) != failures) continue;
    all.push_back(event.pause_s);
    if (event.time <= cut_->time) known.push_back(event.pause_s);
  }
  return median_or_zero(known.empty() ? all : known);
}

void LearnedRates::take_measured() {
  for (const auto* event : known_) {
    double exchange = -1;
    for (const auto& time : event->measured) {
      if (time.rows < 1 || !(time.own_ms > 0)) continue;
      points_[time.worker].push_back({static_cast<double>(time.rows), time.own_ms});
      exchange = exchange < 0 ? time.comm_ms : std::min(exchange, time.comm_ms);
    }
    const auto ranks = std::ssize(event->measured);
    if (exchange >= 0 && ranks > 1) exchange_[ranks].push_back(exchange);
  }
  // Of generations that no measurement is of: as long as the step, as far as anybody can tell.
  for (const auto& event : run_.events) {
    const double ms = step_ms(event.generation);
    for (size_t i = 0; i < event.workers.size(); ++i) {
      auto& points = points_[event.workers[i]];
      if (!points.empty() || ms <= 0 || event.rows[i] < 1) continue;
      points.push_back({static_cast<double>(event.rows[i]), ms});
    }
  }
}

double LearnedRates::step_ms(int64_t generation) const {
  const auto found = steps_.find(generation);
  if (found == steps_.end() || found->second.second < 1) return 0;
  return 1000 * found->second.first / static_cast<double>(found->second.second);
}

// ms = fixed + rows x its own: the fixed part from workers that had several shares.
void LearnedRates::fit() {
  std::vector<double> bases;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [worker, points] : points_) {
    std::vector<double> rows, ms;
    for (const auto& point : points) {
      rows.push_back(point.rows);
      ms.push_back(point.ms);
      least = std::min(least, point.ms);
    }
    const auto [low, high] = std::minmax_element(rows.begin(), rows.end());
    if (!rows.empty() && *high > 1.2 * *low) bases.push_back(fit_line(rows, ms).base);
  }
  fixed_ms_ = bases.empty() ? 0 : std::clamp(median_or_zero(bases), 0.0, 0.9 * least);
  double sum = 0;
  for (const auto& [worker, points] : points_) {
    std::vector<double> each;
    for (const auto& point : points) each.push_back((point.ms - fixed_ms_) / point.rows);
    if (each.empty()) continue;
    row_ms_[worker] = median_or_zero(each);
    sum += row_ms_[worker];
  }
  // Who comes later is like those that were there.
  const double mean = sum / static_cast<double>(std::max<size_t>(1, row_ms_.size()));
  for (const auto& event : run_.events) {
    for (const auto& worker : event.workers) row_ms_.try_emplace(worker, mean);
  }
}

double LearnedRates::exchange_ms(size_t ranks) const {
  if (ranks < 2 || exchange_.empty()) return 0;
  const auto found = exchange_.find(static_cast<int64_t>(ranks));
  return median_or_zero((found == exchange_.end() ? exchange_.rbegin()->second : found->second));
}

// The mean is over steps, not over time: members are there for so long, and in that time they are
// to take as many steps as they took.
void LearnedRates::scale() {
  double factors = 0, steps = 0;
  for (const auto* event : known_) {
    const auto measured = step_ms(event->generation) - exchange_ms(event->workers.size());
    if (!(measured > 0)) continue;
    double longest = 0;
    for (size_t i = 0; i < event->workers.size(); ++i) {
      longest = std::max(
          longest, fixed_ms_ + static_cast<double>(event->rows[i]) * row_ms_.at(event->workers[i]));
    }
    if (!(longest > 0)) continue;
    const auto count = static_cast<double>(steps_.at(event->generation).second);
    factors += count * measured / longest;
    steps += count;
  }
  if (!(steps > 0)) return;
  for (auto& [worker, row_ms] : row_ms_) row_ms *= factors / steps;
  fixed_ms_ *= factors / steps;
}

}  // namespace fovea::elastic
