// What a worker publishes of a run, each under the plan that holds; see Note [Generations].
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <thread>

#include "fovea/core/log.h"
#include "fovea/elastic/worker_state.h"
#include "fovea/parallel/rank_error.h"

namespace fovea::elastic {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFresh{1000};  // etcd was heard of so lately that it is asked
constexpr milliseconds kPublishPatience{10000};
constexpr milliseconds kPublishTick{200};
constexpr milliseconds kLookForPlan{20};

}  // namespace

void Worker::log_samples(const data::Batch& batch, int64_t step) const {
  SampleLine line{.generation = taken_, .step = step, .position = batch.position};
  std::copy_if(batch.indices.begin(), batch.indices.end(), std::back_inserter(line.ids),
               [](int64_t index) { return index >= 0; });  // others fill the batch up
  journal_->add(line);
}

// By which plan this worker may publish: its own, where that holds; or one that came after it,
// which nobody can have entered without this worker. Null: it may not. Throws EtcdError.
std::shared_ptr<Fence> Worker::standing_fence(int64_t* generation) {
  Registration own;
  {
    const std::lock_guard lock(fence_mutex_);
    own = entered_as_;
    *generation = taken_;
  }
  const auto value = fence_client_->get(keys_.plan());
  if (!value) return nullptr;
  const auto seen = from_json<Plan>(value->value, keys_.plan());
  const auto& plan = plan_at(seen, std::numeric_limits<int64_t>::min());
  const bool is_parked = plan.generation == *generation && plan.members.empty();
  if (!is_parked && !takes_part(plan, own)) return nullptr;
  return std::make_shared<Fence>(*fence_client_, keys_, value->mod_revision);
}

checkpoint::Publishing Worker::may_publish() {
  if (presence_->membership().silent_for() > kFresh) return checkpoint::Publishing::kUnknown;
  try {
    int64_t generation = 0;
    return standing_fence(&generation) ? checkpoint::Publishing::kYes : checkpoint::Publishing::kNo;
  } catch (const EtcdError&) {
    return checkpoint::Publishing::kUnknown;
  }
}

bool Worker::publish_lines() {
  const bool has_events = journal_->publish();
  return run_.log->publish() && has_events;
}

void Worker::publish(const checkpoint::Published& published) {
  Commit commit{.generation = 0,
                .step = published.step,
                .position = published.scalars.at("position").get<int64_t>(),
                .checkpoint = "checkpoints/" + published.folder,
                .sum = published.sum,
                .is_done = false};
  commit_under_plan(commit);
}

// Until etcd has it, or has a plan that this worker has no part in.
bool Worker::commit_under_plan(Commit commit) {
  const auto end = Clock::now() + kPublishPatience;
  for (;;) {
    try {
      const auto fence = standing_fence(&commit.generation);
      if (!fence) return false;
      if (fence->publish(commit)) return true;
    } catch (const EtcdError& error) {
      if (error.kind() != EtcdError::Kind::kUnreachable || Clock::now() > end) {
        log_warning(fmt::format("elastic: the checkpoint of step {} is not in etcd: {}",
                                commit.step, error.what()));
        return false;
      }
      std::this_thread::sleep_for(kPublishTick);
    }
  }
}

std::optional<Commit> Worker::last_commit() {
  const auto value = fence_client_->get(keys_.commit());
  if (!value) return {};
  return from_json<Commit>(value->value, keys_.commit());
}

// Who was first to go may have taken the place where members meet with it.
void Worker::leave_at_end() {
  try {
    members_.world().leave();
  } catch (const parallel::RankError&) {
    for (const auto late = Clock::now() + kPublishPatience; Clock::now() < late;) {
      try {
        const auto commit = last_commit();
        if (commit && (commit->is_done || commit->generation == taken_)) return;
        throw;  // whoever had to say so is lost
      } catch (const EtcdError&) {
        std::this_thread::sleep_for(
            kPublishTick);  // it ends with the run where it is the run's own
      }
    }
  }
}

// The run's last word under the plan in force, after its weights and report are there.
void Worker::publish_end(bool is_done) {
  const auto late = Clock::now() + kPublishPatience;
  while (!publish_lines() && Clock::now() < late) std::this_thread::sleep_for(kPublishTick);
  Commit commit;
  try {
    commit = last_commit().value_or(Commit{});
  } catch (const EtcdError& error) {
    log_warning(fmt::format("elastic: etcd does not hear that the run is over: {}", error.what()));
    return;
  }
  commit.step = run_.step;
  commit.position = run_.position;
  commit.is_done = is_done;
  commit_under_plan(commit);
}

// Where the plan that some member knows of leaves nobody, what is there is saved while all are.
void Worker::save_before_parking() {
  const auto end = Clock::now() + kPublishPatience;
  auto seen = plans_.current();
  const auto is_new = [&] { return seen && plan_at(seen->plan, run_.step).generation > taken_; };
  while (!is_new() && Clock::now() < end) {
    std::this_thread::sleep_for(kLookForPlan);
    seen = plans_.current();
  }
  const bool parks = is_new() && plan_at(seen->plan, run_.step).members.empty();
  auto& all = members_.world().all();
  if (parallel::max_over_ranks(all, parks ? 1 : 0, "whether the run parks") == 0) return;
  if (is_new()) take(plan_at(seen->plan, run_.step));
  if (run_.is_writer()) publish_lines();
  if (run_.saved_step != run_.step) run_.save();
  run_.state().checkpoints->wait();
  is_parked_ = true;
}

}  // namespace fovea::elastic
