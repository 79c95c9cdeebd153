// A worker from one plan to the next.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "fovea/core/log.h"
#include "fovea/elastic/worker_state.h"

namespace fovea::elastic {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPlanTick{200};
constexpr milliseconds kMostLate{5000};  // of a plan after members were lost, besides the lease

bool is_of(const std::vector<Member>& members, const Registration& registration) {
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.registration() == registration; });
}

}  // namespace

bool Worker::takes_part(const Plan& plan, const Registration& worker) {
  return is_of(plan.members, worker) || is_of(plan.leaving, worker);
}

bool Worker::takes_part(const Plan& plan) {
  return takes_part(plan, presence_->membership().registration());
}

// Of a plan for a later step the one before, until members have entered it.
Plan Worker::in_force(const Plan& plan) {
  if (plan.before.empty()) return plan;
  const bool is_member = !is_broken_ && run_.place.state && takes_part(plan.before.front());
  if (is_member) return plan_at(plan, run_.step);
  try {
    std::string unreadable;
    auto situation = situation_of(KeyMirror::read(*fence_client_, with_prefix(keys_.workers())),
                                  keys_, &unreadable);
    situation.plan = plan;
    return plan_in_force(situation);
  } catch (const EtcdError&) {
    return plan.before.front();  // away: it is looked at again
  }
}

// From now on what is published, is so under this plan.
void Worker::take(const Plan& plan) {
  lost_since_ = Clock::now();
  const auto own = presence_->membership().registration();
  const std::lock_guard lock(fence_mutex_);
  taken_ = plan.generation;
  if (takes_part(plan, own)) entered_as_ = own;
}

void Worker::give_state_up(const Plan& plan) {
  log_info(fmt::format(
      "worker {}, step {}: generation {} ({}) goes on without it; it gives its state up",
      options_.name, run_.step, plan.generation, plan.reason));
  run_.place = {};
  members_ = {};
  tell_state();
}

void Worker::tell_state() {
  presence_->change([this](WorkerRecord& worker) {
    worker.has_state = run_.place.state != nullptr;
    worker.step = run_.step;
    worker.position = run_.position;
    worker.global_batch = run_.order().batch_size_at(run_.position);
    worker.pause_s = pause_s_;
    times_.tell(worker);
  });
}

bool Worker::ends_waiting(bool is_to_go) {
  if (is_to_go && (!run_.place.state || is_parked_)) {
    end_ = WorkerEnd::kLeft;
    return true;
  }
  const auto late = milliseconds(1000 * config_.elastic.lease) + kMostLate;
  if (is_broken_ && Clock::now() - lost_since_ > late) ask_to_regroup();
  return false;
}

bool Worker::ends_without(const SeenPlan& seen, const Plan& plan) {
  const auto own = presence_->membership().registration();
  const bool is_of_before = seen.revision < own.created && Clock::now() - started_ < kMostLate;
  if (!plan.ends.empty() && is_of_before) return false;  // of a run that this one goes on with
  if (!plan.ends.empty()) {
    end_ = plan.ends == "done" ? WorkerEnd::kDone : WorkerEnd::kStopped;
    return true;
  }
  taken_ = plan.generation;
  is_parked_ = plan.members.empty();
  if (is_parked_ && run_.place.state && was_removed()) {
    end_ = WorkerEnd::kLeft;
    return true;
  }
  if (is_parked_) return false;  // all keep what they have
  if (run_.place.state) give_state_up(plan);
  // Who was left out for good, and is well, comes as a new one.
  const bool was_left_out = plan.reason == "hang" || plan.reason == "network";
  if (was_left_out && own == entered_as_) presence_->membership().register_anew();
  return false;
}

std::optional<Plan> Worker::next_plan() {
  int64_t revision = 0;
  for (;;) {
    pulse_.beat();
    check_patience();
    if (ends_waiting(is_told_to_go())) return {};
    const auto seen = plans_.wait(revision, kPlanTick);
    if (!seen) continue;
    auto plan = in_force(seen->plan);
    const bool is_final = seen->plan.before.empty() && plan.ends.empty();
    revision = is_final ? seen->revision : 0;  // others are looked at again
    if (!is_final) std::this_thread::sleep_for(kPlanTick / 4);
    if (plan.generation <= taken_) continue;
    if (plan.members.empty() || plan.ends == "done" || !takes_part(plan)) {
      if (ends_without(*seen, plan)) return {};
      continue;
    }
    is_parked_ = false;
    plan.before.clear();
    take(plan);
    return plan;
  }
}

// `fovea elastic scale --remove`, in place of a place that another one has now.
bool Worker::was_removed() {
  std::optional<KeyValue> value;
  try {
    value = fence_client_->get(keys_.orders());
  } catch (const EtcdError&) {
  }
  if (!value) return false;
  const auto orders = from_json<Orders>(value->value, keys_.orders());
  const auto own = presence_->membership().registration();
  return std::find(orders.excluded.begin(), orders.excluded.end(), own) != orders.excluded.end();
}

// All live, as their leases say, and have lost each other all the same.
void Worker::ask_to_regroup() {
  lost_since_ = Clock::now();
  Request request;
  request.kind = "regroup";
  request.generation = taken_;
  try {
    fence_client_->put(keys_.request(fmt::format("regroup-{}-{}", taken_, options_.name)),
                       to_json(request));
    log_warning(
        fmt::format("worker {}: the members of generation {} lost each other, and no plan "
                    "says why; it asks for a new one",
                    options_.name, taken_));
  } catch (const EtcdError&) {
    // Away: it is asked again.
  }
}

}  // namespace fovea::elastic
