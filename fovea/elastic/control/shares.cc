#include "fovea/elastic/control/shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

namespace fovea::elastic {
namespace {

constexpr int64_t kLeastSteps = 8;     // of which a mean says something
constexpr int64_t kMostDoublings = 6;  // of the steps that a gain has to hold

int64_t model_ranks(const Plan& plan) { return plan.mesh.tp * plan.mesh.cp; }

// Of the longest place.
double longest(const std::vector<int64_t>& parts, const std::vector<double>& ms_per_part) {
  double ms = 0;
  for (size_t place = 0; place < parts.size(); ++place) {
    ms = std::max(ms, static_cast<double>(parts[place]) * ms_per_part[place]);
  }
  return ms;
}

// Places that are slow beyond one part have it, and the others share the rest in proportion to
// their speed, rounded down: no best choice gives one of them less.
std::vector<int64_t> least_parts(const std::vector<double>& ms_per_part, int64_t parts) {
  std::vector<int64_t> given(ms_per_part.size(), 0);
  for (bool is_any_slow = true; is_any_slow;) {
    is_any_slow = false;
    double speed = 0;
    auto left = parts;
    for (size_t i = 0; i < given.size(); ++i) {
      given[i] == 1 ? left -= 1 : speed += 1 / ms_per_part[i];
    }
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i] == 1) continue;
      if (static_cast<double>(left) / speed / ms_per_part[i] >= 1) continue;
      given[i] = 1;
      is_any_slow = true;
    }
    if (is_any_slow) continue;
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i] == 1) continue;
      const double ideal = static_cast<double>(left) / speed / ms_per_part[i];
      given[i] = std::max<int64_t>(1, static_cast<int64_t>(ideal * (1 - 1e-12)));
    }
  }
  return given;
}

std::vector<double> with_means(std::vector<double> row_ms) {
  double sum = 0;
  int64_t known = 0;
  for (const double ms : row_ms) {
    sum += ms;
    known += ms > 0 ? 1 : 0;
  }
  for (auto& ms : row_ms) {
    if (ms <= 0 && known > 0) ms = sum / static_cast<double>(known);
  }
  return row_ms;
}

std::vector<Registration> registrations_of(const Plan& plan) {
  std::vector<Registration> all;
  for (const auto& member : plan.members) all.push_back(member.registration());
  return all;
}

const PresentWorker* find(const Situation& situation, const std::string& name) {
  for (const auto& worker : situation.workers) {
    if (worker.name == name) return &worker;
  }
  return nullptr;
}

}  // namespace

std::vector<int64_t> parts_by_speed(const std::vector<double>& ms_per_part, int64_t parts) {
  auto given = least_parts(ms_per_part, parts);
  // Who would be done first with one part more gets it.
  using Next = std::pair<double, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto done_with_one_more = [&](size_t i) {
    return static_cast<double>(given[i] + 1) * ms_per_part[i];
  };
  for (size_t i = 0; i < given.size(); ++i) next.emplace(done_with_one_more(i), i);
  auto left = parts - std::accumulate(given.begin(), given.end(), int64_t{0});
  for (; left > 0; --left) {
    const auto place = next.top().second;
    next.pop();
    ++given[place];
    next.emplace(done_with_one_more(place), place);
  }
  return given;
}

std::vector<int64_t> equal_parts(int64_t places, int64_t parts) {
  std::vector<int64_t> given;
  for (int64_t i = 0; i < places; ++i) {
    given.push_back(parts * (i + 1) / places - parts * i / places);
  }
  return given;
}

std::vector<ShareRecord> shares_of_parts(const std::vector<int64_t>& parts) {
  const auto all = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  std::vector<ShareRecord> shares;
  int64_t begin = 0;
  for (const auto count : parts) {
    shares.push_back({begin, begin + count, all});
    begin += count;
  }
  return shares;
}

std::vector<MemberTime> measured_times(const Plan& plan, const Situation& situation) {
  std::vector<MemberTime> times;
  const auto batch = batch_of(plan, situation);
  for (const auto& member : plan.members) {
    const auto* const worker = find(situation, member.worker);
    if (worker == nullptr || worker->created != member.created) continue;
    const auto& record = worker->record;
    if (record.generation != plan.generation || record.timed_steps < kLeastSteps) continue;
    if (!(record.row_ms > 0) || !std::isfinite(record.row_ms)) continue;
    const auto rows = member.share.rows(batch);
    times.push_back({.worker = member.worker,
                     .rows = rows,
                     .own_ms = static_cast<double>(rows) * record.row_ms,
                     .comm_ms = record.comm_ms,
                     .steps = record.timed_steps});
  }
  return times;
}

std::vector<double> place_row_ms(const Plan& plan, const std::vector<MemberTime>& times) {
  std::vector<double> row_ms(plan.members.size() / static_cast<size_t>(model_ranks(plan)), 0);
  std::map<std::string, const MemberTime*> known;
  for (const auto& time : times) known[time.worker] = &time;
  for (const auto& member : plan.members) {
    const auto found = known.find(member.worker);
    if (found == known.end() || found->second->rows < 1) continue;
    auto& ms = row_ms[static_cast<size_t>(member.rank / model_ranks(plan))];
    ms = std::max(ms, found->second->own_ms / static_cast<double>(found->second->rows));
  }
  return row_ms;
}

std::vector<int64_t> fitting_parts(const std::vector<double>& row_ms, int64_t parts,
                                   const PlanOptions& options) {
  const auto equal = equal_parts(std::ssize(row_ms), parts);
  const auto known = with_means(row_ms);
  if (!options.shares_by_speed || known.empty() || known.front() <= 0) return equal;
  auto fitting = parts_by_speed(known, parts);
  const bool gains = longest(fitting, known) <= (1 - options.shares_gain) * longest(equal, known);
  return gains ? fitting : equal;
}

std::optional<ShareChange> ShareWatch::look(const Situation& situation, const PlanOptions& options,
                                            double now_s, const Predict& predict) {
  if (!options.shares_by_speed || !situation.plan) return {};
  const auto plan = plan_in_force(situation);
  if (plan.generation != generation_) {
    generation_ = plan.generation;
    gains_since_step_ = -1;
    auto members = registrations_of(plan);
    changes_ = members == members_ ? changes_ + (plan.reason == "shares" ? 1 : 0) : 0;
    members_ = std::move(members);
  }
  const auto times = measured_times(plan, situation);
  if (times.size() < 2 || times.size() != plan.members.size() || !plan.ends.empty()) {
    gains_since_step_ = -1;
    return {};
  }
  const auto row_ms = place_row_ms(plan, times);
  const auto batch = batch_of(plan, situation);
  const auto of = options.slots > 0 ? options.slots : batch;
  if (std::ssize(row_ms) < 2 || of < std::ssize(row_ms)) return {};

  const MemberTime* slowest = &times.front();
  double exchange = std::numeric_limits<double>::infinity(), pause_s = 0;
  int64_t step = std::numeric_limits<int64_t>::max();
  for (const auto& time : times) {
    if (time.own_ms > slowest->own_ms) slowest = &time;
    exchange = std::min(exchange, time.comm_ms);
    const auto& record = find(situation, time.worker)->record;
    pause_s = std::max(pause_s, record.pause_s);
    step = std::min(step, record.step);
  }
  auto parts = parts_by_speed(row_ms, of);
  const double rows_of_part = static_cast<double>(batch) / static_cast<double>(of);
  const double measured = slowest->own_ms + exchange;
  const double expected = longest(parts, row_ms) * rows_of_part + exchange;
  if (!(expected <= (1 - options.shares_gain) * measured)) {
    gains_since_step_ = -1;
    return {};
  }
  if (gains_since_step_ < 0) {
    gains_since_step_ = step;
    gains_since_s_ = now_s;
  }
  const auto held = options.shares_after << std::min(changes_, kMostDoublings);
  const double lost_s = (1 - expected / measured) * (now_s - gains_since_s_);
  if (step - gains_since_step_ < held || lost_s < pause_s) return {};
  ShareChange change{.generation = plan.generation, .parts = std::move(parts)};
  change.reason = {.measured_ms = measured, .expected_ms = expected};
  if (predict) {
    const auto* const worker = find(situation, slowest->worker);
    change.reason.profile_ms = predict(*worker, slowest->rows).value_or(0);
  }
  return change;
}

}  // namespace fovea::elastic
