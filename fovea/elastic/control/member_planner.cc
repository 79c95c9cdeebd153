#include "fovea/elastic/control/member_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "fovea/core/printable.h"
#include "fovea/elastic/control/shares.h"

namespace fovea::elastic {

Orders MemberPlanner::first_orders(const PlanOptions& options) {
  Orders orders;
  orders.workers = options.max_workers;
  return orders;
}

MemberPlanner::MemberPlanner(const Situation& situation, const PlanOptions& options,
                             const Identity& run)
    : situation_(situation), options_(options) {
  orders_ = situation.orders.value_or(first_orders(options));
  if (situation.plan) base_ = plan_in_force(situation);
  const auto expected = with_data(run);
  for (const auto& worker : situation.workers) {
    const auto text = difference(worker.record.identity, expected);
    if (text.empty()) {
      here_[worker.name] = &worker;
    } else {
      refused_ += fmt::format("{}worker {} is of another run: {}", refused_.empty() ? "" : "; ",
                              worker.name, text);
    }
  }
}

Identity MemberPlanner::with_data(Identity run) const {
  const PresentWorker* first = nullptr;
  for (const auto& worker : situation_.workers) {
    const bool is_first =
        !base_.members.empty() && base_.members.front().registration() == worker.registration();
    if (first == nullptr || is_first || worker.created < first->created) first = &worker;
    if (is_first) break;
  }
  if (run.data.empty() && first != nullptr) run.data = first->record.identity.data;
  return run;
}

int64_t MemberPlanner::step() const {
  int64_t step = situation_.commit ? situation_.commit->step : 0;
  for (const auto& worker : here_) step = std::max(step, worker.second->record.step);
  return step;
}

void MemberPlanner::apply(const std::string& id, const Request& request) {
  if (request.kind == "scale") {
    orders_.workers = request.workers;
    orders_.wanted.clear();
  } else if (request.kind == "batch") {
    orders_.global_batch = request.global_batch;
    orders_.batch_request = id;
  } else if (request.kind == "stop") {
    is_to_stop_ = true;
  } else if (request.kind == "add") {
    add(request.worker);
  } else if (request.kind == "remove") {
    remove(request.worker);
  } else if (request.kind == "exclude") {
    exclude(request);
  } else if (request.kind == "regroup") {
    is_to_regroup_ = is_to_regroup_ || request.generation == base_.generation;
  } else {
    notes_.push_back("a request of kind '" + printable_start(request.kind) +
                     "', which this version does not know, is passed over");
  }
}

Plan MemberPlanner::plan(std::string* missing) const {
  Plan plan = base_;
  plan.from_step = -1;
  plan.requests.clear();
  plan.before.clear();
  plan.then.clear();
  plan.shares.clear();
  plan.measured = measured_times(base_, situation_);
  const auto members = chosen(missing);
  plan.slots = options_.slots;
  plan.global_batch = orders_.global_batch > 0 ? orders_.global_batch : options_.global_batch;
  plan.batch_request = orders_.batch_request;
  set_members(plan, members);
  if (is_to_stop_ && plan.ends.empty()) plan.ends = "stop";
  if (situation_.commit && situation_.commit->is_done) plan.ends = "done";
  plan.reason = reason_of(plan);
  return plan;
}

const PresentWorker* MemberPlanner::find(const Registration& registration) const {
  const auto found = here_.find(registration.worker);
  const bool is_same = found != here_.end() && found->second->created == registration.created;
  return is_same ? found->second : nullptr;
}

bool MemberPlanner::is_excluded(const Registration& registration) const {
  return std::find(orders_.excluded.begin(), orders_.excluded.end(), registration) !=
         orders_.excluded.end();
}

bool MemberPlanner::is_wanted(const PresentWorker& worker) const {
  return std::find(orders_.wanted.begin(), orders_.wanted.end(), worker.registration()) !=
         orders_.wanted.end();
}

bool MemberPlanner::stays(const Member& member) const {
  const auto* const worker = find(member.registration());
  return worker != nullptr && is_eligible(*worker);
}

bool MemberPlanner::is_member(const std::string& name) const {
  return std::any_of(base_.members.begin(), base_.members.end(),
                     [&](const auto& member) { return member.worker == name && stays(member); });
}

void MemberPlanner::add(const std::string& name) {
  const auto found = here_.find(name);
  if (found == here_.end()) {
    notes_.push_back("there is no worker '" + printable_start(name) + "' to be added");
    return;
  }
  const auto registration = found->second->registration();
  std::erase(orders_.excluded, registration);
  if (is_member(name) || is_wanted(*found->second)) return;
  orders_.wanted.push_back(registration);
  if (orders_.workers > 0) orders_.workers += 1;
}

void MemberPlanner::remove(const std::string& name) {
  const auto found = here_.find(name);
  if (found == here_.end()) {
    notes_.push_back("there is no worker '" + printable_start(name) + "' to be removed");
    return;
  }
  // Its place is not for another one that waits.
  if (is_member(name) && orders_.workers > 1) orders_.workers -= 1;
  exclude_registration(found->second->registration());
}

void MemberPlanner::exclude(const Request& request) {
  if (base_.generation != request.generation) return;  // of members before
  for (const auto& member : base_.members) {
    if (member.worker != request.worker || !stays(member)) continue;
    exclude_registration(member.registration());
    lost_.push_back(member.registration());
    excluded_for_ = request.reason == "hang" ? "hang" : "network";
  }
}

void MemberPlanner::exclude_registration(const Registration& registration) {
  if (!is_excluded(registration)) orders_.excluded.push_back(registration);
  std::erase(orders_.wanted, registration);
}

std::vector<const PresentWorker*> MemberPlanner::joiners() const {
  std::vector<const PresentWorker*> joining;
  for (const auto& [name, worker] : here_) {
    if (is_eligible(*worker) && !is_member(name)) joining.push_back(worker);
  }
  std::sort(joining.begin(), joining.end(), [this](const auto* a, const auto* b) {
    return std::pair(!is_wanted(*a), a->created) < std::pair(!is_wanted(*b), b->created);
  });
  return joining;
}

int64_t MemberPlanner::unit() const {
  return options_.mesh.tp * options_.mesh.cp *
         (options_.dp_shard_follows ? 1 : options_.mesh.dp_shard);
}

int64_t MemberPlanner::usable(int64_t count, std::string* missing) const {
  const auto model_ranks = options_.mesh.tp * options_.mesh.cp;
  auto shares = orders_.global_batch > 0 ? orders_.global_batch : options_.global_batch;
  if (options_.slots > 0) shares = std::min(shares, options_.slots);
  auto limit = std::numeric_limits<int64_t>::max() / 2;
  if (orders_.workers > 0) limit = orders_.workers;
  const auto most = std::min({count, limit, shares * model_ranks});
  const auto whole = most / unit() * unit();
  const auto least = std::max(options_.min_workers, unit());
  if (whole >= least) return whole;
  *missing = fmt::format("{} of at least {} workers (elastic.min_workers={}, mesh of {})",
                         std::min(count, limit), least, options_.min_workers, unit());
  return 0;
}

void MemberPlanner::keep_chosen(std::vector<const PresentWorker*>& members) const {
  if (!situation_.chosen) return;
  const auto& list = *situation_.chosen;
  auto kept = members;
  std::erase_if(kept, [&](const PresentWorker* worker) {
    return !is_wanted(*worker) &&
           std::find(list.begin(), list.end(), worker->registration()) == list.end();
  });
  std::string missing;
  if (usable(std::ssize(kept), &missing) > 0) members = std::move(kept);
}

std::vector<const PresentWorker*> MemberPlanner::chosen(std::string* missing) const {
  std::vector<const PresentWorker*> members;
  for (const auto& member : base_.members) {
    if (stays(member)) members.push_back(find(member.registration()));
  }
  if (base_.ends.empty() && !is_to_stop_) {
    for (const auto* worker : joiners()) members.push_back(worker);
  }
  keep_chosen(members);
  members.resize(static_cast<size_t>(usable(static_cast<int64_t>(members.size()), missing)));
  return members;
}

void MemberPlanner::set_members(Plan& plan,
                                const std::vector<const PresentWorker*>& members) const {
  const auto count = static_cast<int64_t>(members.size());
  const auto model_ranks = options_.mesh.tp * options_.mesh.cp;
  plan.mesh = options_.mesh;
  plan.members.clear();
  plan.leaving.clear();
  plan.store = {};
  if (count == 0) return;
  const auto data_ranks = count / model_ranks;
  if (options_.dp_shard_follows && data_ranks % plan.mesh.dp_shard != 0) {
    plan.mesh.dp_shard = data_ranks;
  } else if (options_.dp_shard_follows && options_.mesh.dp_replicate == 1) {
    plan.mesh.dp_shard = options_.mesh.dp_shard > 1 ? data_ranks : 1;
  }
  plan.mesh.dp_replicate = data_ranks / plan.mesh.dp_shard;
  for (int64_t rank = 0; rank < count; ++rank) {
    const auto& worker = *members[static_cast<size_t>(rank)];
    plan.members.push_back({.worker = worker.name,
                            .created = worker.created,
                            .rank = rank,
                            .share = {},
                            .host = worker.record.host,
                            .address = worker.record.store.address,
                            .device = worker.record.device});
  }
  plan.store = members.front()->record.store;
  set_shares(plan);
  set_leaving(plan);
}

bool MemberPlanner::has_members_of_base(const Plan& plan) const {
  return std::equal(
      plan.members.begin(), plan.members.end(), base_.members.begin(), base_.members.end(),
      [](const Member& a, const Member& b) { return a.registration() == b.registration(); });
}

void MemberPlanner::set_shares(Plan& plan) const {
  const auto model_ranks = plan.mesh.tp * plan.mesh.cp;
  const auto places = std::ssize(plan.members) / model_ranks;
  const bool stay =
      has_members_of_base(plan) && plan.mesh == base_.mesh && plan.slots == base_.slots;
  auto parts = equal_parts(places, options_.slots > 0 ? options_.slots : places);
  if (stay && situation_.shares && situation_.shares->generation == base_.generation &&
      std::ssize(situation_.shares->parts) == places) {
    parts = situation_.shares->parts;
    plan.shares = {situation_.shares->reason};
  } else if (stay) {
    for (auto& member : plan.members) {
      member.share = base_.members[static_cast<size_t>(member.rank)].share;
    }
    return;
  } else if (options_.shares_by_speed) {
    parts = parts_of_known(plan, parts);
  }
  const auto shares = shares_of_parts(parts);
  for (auto& member : plan.members) {
    member.share = shares[static_cast<size_t>(member.rank / model_ranks)];
  }
}

std::vector<int64_t> MemberPlanner::parts_of_known(const Plan& plan,
                                                   const std::vector<int64_t>& equal) const {
  const auto row_ms = place_row_ms(plan, plan.measured);
  const auto places = std::ssize(row_ms);
  const auto of = options_.slots > 0 ? options_.slots : std::max(places, plan.global_batch);
  auto parts = fitting_parts(row_ms, of, options_);
  return parts == equal_parts(places, of) ? equal : parts;
}

void MemberPlanner::set_leaving(Plan& plan) const {
  const auto is_in = [](const auto& list, const Registration& one) {
    return std::any_of(list.begin(), list.end(),
                       [&](const Member& member) { return member.registration() == one; });
  };
  for (const auto* before : {&base_.members, &base_.leaving}) {
    for (auto member : *before) {
      const auto one = member.registration();
      const bool is_lost = std::find(lost_.begin(), lost_.end(), one) != lost_.end();
      const auto* const worker = find(one);
      if (worker == nullptr || is_lost) continue;
      if (before == &base_.leaving && !worker->record.has_state) continue;  // it has given
      if (is_in(plan.members, one) || is_in(plan.leaving, one)) continue;
      member.rank = std::ssize(plan.members) + std::ssize(plan.leaving);
      member.share = {0, 0, 1};
      plan.leaving.push_back(member);
    }
  }
}

std::string MemberPlanner::reason_of(const Plan& plan) const {
  if (plan.ends != base_.ends) return plan.ends;
  if (base_.generation == 0 || (base_.members.empty() && base_.reason == "start")) return "start";
  std::string reason;
  for (const auto& member : base_.members) {
    const auto* const worker = find(member.registration());
    if (worker == nullptr) return "death";
    if (!excluded_for_.empty() && is_excluded(member.registration())) reason = excluded_for_;
  }
  if (!reason.empty()) return reason;
  const bool has_left =
      std::any_of(base_.members.begin(), base_.members.end(), [&](const Member& member) {
        return std::none_of(plan.members.begin(), plan.members.end(), [&](const Member& other) {
          return other.registration() == member.registration();
        });
      });
  if (has_left) return "leave";
  if (plan.members.size() > base_.members.size()) return "join";
  if (is_to_regroup_) return "network";
  return plan.shares.empty() ? "batch" : "shares";
}

}  // namespace fovea::elastic
