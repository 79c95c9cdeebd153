// What a worker learns of new plans while its main thread computes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "fovea/elastic/control/plan_watch.h"
#include "fovea/parallel/interrupt.h"

namespace fovea::elastic {

// The plan that holds at a step: of one that members change to later the one before.
const Plan& plan_at(const Plan& plan, int64_t step);

// What somebody who computes under `now` hears from a plan that came after it. Empty: nothing that
// could not wait for the next step.
std::string what_is_lost(const Plan& now, const Plan& next);

class PlanFollower {
 public:
  // on_plan: called from the follower's thread with each new plan. Both outlive this.
  PlanFollower(const PlanWatch& plans, std::function<void(const Plan&)> on_plan);
  ~PlanFollower();
  PlanFollower(const PlanFollower&) = delete;
  PlanFollower& operator=(const PlanFollower&) = delete;

  // The members of `plan` wait for each other from now on: `interrupt` fires where one of them is
  // lost, or others have gone on without this worker.
  void guard(const Plan& plan, std::shared_ptr<parallel::Interrupt> interrupt);
  // That was seen; null: there is none yet. For each step: it is read out of etcd's text once.
  std::shared_ptr<const Plan> newest() const;

 private:
  void run();
  void look_at(const Plan& next);

  const PlanWatch& plans_;
  std::function<void(const Plan&)> on_plan_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Plan> newest_;
  Plan plan_;
  std::shared_ptr<parallel::Interrupt> interrupt_;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace fovea::elastic
