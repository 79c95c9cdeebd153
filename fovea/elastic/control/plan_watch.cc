#include "fovea/elastic/control/plan_watch.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

}  // namespace

std::optional<SeenPlan> PlanWatch::plan_of(const KeyMirror::State& state) const {
  const auto found = state.values.find(key_);
  if (found == state.values.end()) return {};
  return SeenPlan{from_json<Plan>(found->second.value, key_), found->second.mod_revision};
}

std::optional<SeenPlan> PlanWatch::current() const { return plan_of(mirror_.state()); }

std::optional<SeenPlan> PlanWatch::wait(int64_t revision, milliseconds timeout) const {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    const auto state = mirror_.state();
    auto plan = plan_of(state);
    if (plan && plan->revision != revision) return plan;
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0) || !mirror_.wait(state.number, left)) return {};
  }
}

bool Fence::publish(const Commit& commit) {
  return client_
      .txn({.compares = {is_at_revision(keys_.plan(), plan_revision_)},
            .success = {put_key(keys_.commit(), to_json(commit))}})
      .is_success;
}

}  // namespace fovea::elastic
