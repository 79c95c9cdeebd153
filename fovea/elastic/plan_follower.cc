#include "fovea/elastic/plan_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"

namespace fovea::elastic {
namespace {

constexpr std::chrono::milliseconds kTick{200};

bool takes_part(const Plan& plan, const Member& member) {
  const auto is_it = [&](const Member& other) {
    return other.registration() == member.registration();
  };
  return std::any_of(plan.members.begin(), plan.members.end(), is_it) ||
         std::any_of(plan.leaving.begin(), plan.leaving.end(), is_it);
}

}  // namespace

const Plan& plan_at(const Plan& plan, int64_t step) {
  return plan.before.empty() || step >= plan.from_step ? plan : plan.before.front();
}

std::string what_is_lost(const Plan& now, const Plan& next) {
  const auto& at_once = plan_at(next, std::numeric_limits<int64_t>::min());
  if (at_once.generation <= now.generation) return {};
  const bool is_at_once = at_once.reason == "death" || at_once.reason == "hang";
  if (at_once.members.empty() && !is_at_once) return {};  // what is there is saved first
  for (const auto& member : now.members) {
    if (takes_part(at_once, member)) continue;
    return fmt::format("worker {} takes no part in generation {} ({})", member.worker,
                       at_once.generation, at_once.reason);
  }
  if (at_once.reason != "network") return {};
  return fmt::format("members of generation {} lost each other", now.generation);
}

PlanFollower::PlanFollower(const PlanWatch& plans, std::function<void(const Plan&)> on_plan)
    : plans_(plans), on_plan_(std::move(on_plan)) {
  thread_ = std::thread([this] { run(); });
}

PlanFollower::~PlanFollower() {
  is_ending_ = true;
  thread_.join();
}

void PlanFollower::guard(const Plan& plan, std::shared_ptr<parallel::Interrupt> interrupt) {
  {
    const std::lock_guard lock(mutex_);
    plan_ = plan;
    interrupt_ = std::move(interrupt);
  }
  if (const auto seen = plans_.current()) look_at(seen->plan);  // it may be there already
}

std::shared_ptr<const Plan> PlanFollower::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void PlanFollower::look_at(const Plan& next) {
  std::shared_ptr<parallel::Interrupt> interrupt;
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    if (!interrupt_) return;
    why = what_is_lost(plan_, next);
    interrupt = interrupt_;
  }
  if (!why.empty()) interrupt->fire(why);
}

void PlanFollower::run() {
  int64_t revision = 0;
  while (!is_ending_) {
    try {
      const auto seen = plans_.wait(revision, kTick);
      if (!seen) continue;
      revision = seen->revision;
      const auto newest = std::make_shared<const Plan>(seen->plan);
      {
        const std::lock_guard lock(mutex_);
        newest_ = newest;
      }
      on_plan_(*newest);
      look_at(*newest);
    } catch (const Error& error) {
      log_warning(fmt::format("elastic: {}", error.what()));
      std::this_thread::sleep_for(kTick);
    }
  }
}

}  // namespace fovea::elastic
