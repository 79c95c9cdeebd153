#include "fovea/elastic/control/next_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/control/member_planner.h"

namespace fovea::elastic {
namespace {

// Whether members would notice: all that a plan says but its number and reason. The store is that
// of its first member; those that leave go by themselves; nobody notices anything.
bool is_same(const Plan& a, const Plan& b) {
  if (a.members.empty() && b.members.empty()) return a.ends == b.ends;
  return a.members == b.members && a.mesh == b.mesh && a.global_batch == b.global_batch &&
         a.batch_request == b.batch_request && a.slots == b.slots && a.ends == b.ends;
}

// Of the next step for which something was asked, all that was asked for it.
std::vector<const PresentRequest*> later_requests(const std::vector<PresentRequest>& requests,
                                                  int64_t step) {
  int64_t next = std::numeric_limits<int64_t>::max();
  for (const auto& [id, created, request] : requests) {
    if (request.at_step > step) next = std::min(next, request.at_step);
  }
  std::vector<const PresentRequest*> found;
  for (const auto& request : requests) {
    if (request.request.at_step == next) found.push_back(&request);
  }
  return found;
}

// The plan for a later step; nothing where it would change nothing.
std::optional<Plan> later_plan(MemberPlanner planner,
                               const std::vector<const PresentRequest*>& requests) {
  if (requests.empty() || planner.base().generation == 0 || !planner.base().ends.empty()) return {};
  for (const auto* request : requests) planner.apply(request->id, request->request);
  std::string missing;
  auto plan = planner.plan(&missing);
  if (is_same(plan, planner.base())) return {};
  plan.from_step = requests.front()->request.at_step;
  for (const auto* request : requests) plan.requests.push_back(request->id);
  plan.before = {planner.base()};
  plan.then = {planner.orders()};
  return plan;
}

// Of a situation in which nothing has to change at once. now: the plan in force, as it would be
// written.
std::optional<Plan> plan_behind(const Plan& there, const Plan& now, std::optional<Plan> later) {
  const bool waits = now.generation < there.generation;          // `there` is for a later step
  if (!later) return waits ? std::optional(now) : std::nullopt;  // what was asked for is void
  const bool is_there = waits && is_same(*later, there) && later->from_step == there.from_step &&
                        later->requests == there.requests && later->then == there.then;
  return is_there ? std::nullopt : std::move(later);
}

// After the last thing that members do under it no plan follows, though they go.
bool is_over(const Plan& plan, const Situation& situation) {
  if (plan.ends != "stop") return plan.ends == "done";
  return plan.members.empty() || is_saved_under(plan, situation);
}

void handle_requests(MemberPlanner& planner, const std::vector<PresentRequest>& requests,
                     NextPlan& next) {
  const auto entered = planner.base();
  const auto step = planner.step();
  const auto is_of_plan = [&](const std::string& id) {
    return std::find(entered.requests.begin(), entered.requests.end(), id) !=
           entered.requests.end();
  };
  for (const auto& [id, created, request] : requests) {
    if (!is_of_plan(id)) continue;
    if (!entered.then.empty()) planner.take_over(entered.then.front());
    next.handled.push_back(id);
  }
  for (const auto& [id, created, request] : requests) {
    if (request.at_step > step || is_of_plan(id)) continue;
    planner.apply(id, request);
    next.handled.push_back(id);
  }
}

// The place where the members of the plan in force meet is theirs alone.
bool is_taken(const StoreRecord& place, const Plan& base) {
  return place.port > 0 && place == base.store;
}

// Who has gone needs no mention.
Orders without_gone(Orders orders, const Situation& situation) {
  const auto is_gone = [&](const Registration& one) {
    return std::none_of(situation.workers.begin(), situation.workers.end(),
                        [&](const auto& worker) { return worker.registration() == one; });
  };
  std::erase_if(orders.excluded, is_gone);
  std::erase_if(orders.wanted, is_gone);
  return orders;
}

void name_waiting(const Situation& situation, const Plan& plan, NextPlan& next) {
  for (const auto& worker : situation.workers) {
    const bool is_member = std::any_of(
        plan.members.begin(), plan.members.end(),
        [&](const Member& member) { return member.registration() == worker.registration(); });
    if (!is_member) next.waiting.push_back(worker.name);
  }
}

}  // namespace

Plan plan_in_force(const Situation& situation) {
  Plan plan = situation.plan.value();
  if (plan.before.empty()) return plan;
  const bool is_entered =
      std::any_of(situation.workers.begin(), situation.workers.end(),
                  [&](const auto& worker) { return worker.record.generation >= plan.generation; });
  if (!is_entered) return Plan(plan.before.front());
  plan.before.clear();
  return plan;
}

int64_t batch_of(const Plan& plan, const Situation& situation) {
  const WorkerRecord* newest = nullptr;
  for (const auto& [name, created, record] : situation.workers) {
    if (!record.has_state || record.generation != plan.generation) continue;
    if (newest == nullptr || record.step > newest->step) newest = &record;
  }
  return newest != nullptr && newest->global_batch > 0 ? newest->global_batch : plan.global_batch;
}

bool is_saved_under(const Plan& plan, const Situation& situation) {
  return situation.commit && situation.commit->generation >= plan.generation;
}

NextPlan next_plan(const Situation& situation, const PlanOptions& options, const Identity& run) {
  MemberPlanner planner(situation, options, run);
  auto requests = situation.requests;
  std::sort(requests.begin(), requests.end(),
            [](const auto& a, const auto& b) { return a.created < b.created; });
  NextPlan next;
  handle_requests(planner, requests, next);
  const auto orders = without_gone(planner.orders(), situation);
  if (orders != situation.orders.value_or(MemberPlanner::first_orders(options)))
    next.orders = orders;
  const auto plan = planner.plan(&next.missing);
  if (is_over(planner.base(), situation)) {
    next.missing.clear();
  } else if (!situation.plan) {
    if (!plan.members.empty() || !plan.ends.empty()) next.plan = plan;
  } else if (!is_same(plan, planner.base()) || planner.is_to_regroup()) {
    next.plan = plan;
  } else {
    next.plan = plan_behind(*situation.plan, plan,
                            later_plan(planner, later_requests(requests, planner.step())));
  }
  if (next.plan && is_taken(next.plan->store, planner.base())) {
    NextPlan waiting;
    waiting.missing =
        fmt::format("a place to meet, of worker {}", next.plan->members.front().worker);
    return waiting;
  }
  if (next.plan) next.plan->generation = (situation.plan ? situation.plan->generation : 0) + 1;
  name_waiting(situation, next.plan && next.plan->before.empty() ? *next.plan : plan, next);
  if (!planner.refused().empty()) {
    next.missing += (next.missing.empty() ? "" : "; ") + planner.refused();
  }
  next.notes = planner.notes();
  next.data = planner.with_data(run).data;
  return next;
}

}  // namespace fovea::elastic
