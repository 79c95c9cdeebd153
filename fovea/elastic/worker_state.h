// What a Worker is made of; see Note [Generations].
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fovea/elastic/agreement.h"
#include "fovea/elastic/control/membership.h"
#include "fovea/elastic/control/plan_watch.h"
#include "fovea/elastic/control/scheduler.h"
#include "fovea/elastic/control/step_times.h"
#include "fovea/elastic/journal.h"
#include "fovea/elastic/offers.h"
#include "fovea/elastic/plan_follower.h"
#include "fovea/elastic/pulse.h"
#include "fovea/elastic/relay.h"
#include "fovea/elastic/worker.h"
#include "fovea/train/training_run.h"

namespace fovea::elastic {

// A worker's key, which several threads keep up to date.
class Presence {
 public:
  Presence(const EtcdClient& client, const RunKeys& keys, const std::string& name,
           const WorkerRecord& record, MembershipOptions options)
      : record_(record), membership_(client, keys, name, record, std::move(options)) {}

  void change(const std::function<void(WorkerRecord&)>& change) {
    const std::lock_guard lock(mutex_);
    change(record_);
    membership_.update(record_);
  }
  Membership& membership() { return membership_; }

 private:
  std::mutex mutex_;
  WorkerRecord record_;
  Membership membership_;
};

class Worker {
 public:
  Worker(const EtcdClient& client, RunKeys keys, const train::TrainConfig& config,
         const WorkerOptions& options);

  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  WorkerEnd run();

 private:
  using Clock = std::chrono::steady_clock;

  // The processes of a generation.
  struct Members {
    Plan plan;
    std::shared_ptr<parallel::Interrupt> interrupt;
    std::unique_ptr<parallel::World>
        meeting;                           // with those that leave; the members' own without any
    std::unique_ptr<parallel::World> own;  // null: the meeting is

    Members() = default;
    Members(Members&&) = default;
    Members& operator=(Members&&) = default;
    ~Members() { abandon("its members have gone on"); }

    // Nobody waits for anybody there any more.
    void abandon(const std::string& why) const {
      if (own) own->abandon(why);
      if (meeting) meeting->abandon(why);
    }
    parallel::World& world() const { return own ? *own : *meeting; }
  };
  // How long the parts of a change took, and since when no step was taken.
  struct Change {
    Clock::time_point since;
    double detect = 0, agree = 0, groups = 0, relay = 0;
    uint64_t bytes_from_peers = 0, bytes_from_checkpoint = 0;
  };

  // worker.cc: what goes on while members stay; worker_publish.cc: what becomes the run's
  train::RunHooks hooks();
  WorkerRecord first_record();
  void warm_up(data::Batch& batch);
  bool change_is_due(int64_t step) const;
  void at_step();
  void log_samples(const data::Batch& batch, int64_t step) const;
  std::shared_ptr<Fence> standing_fence(int64_t* generation);
  checkpoint::Publishing may_publish();
  // What waits of metrics and events -> whether nothing does any more.
  bool publish_lines();
  void publish(const checkpoint::Published& published);
  bool commit_under_plan(Commit commit);
  void publish_end(bool is_done);
  void leave_at_end();
  std::optional<Commit> last_commit();
  void check_patience();
  bool is_told_to_go();
  // -> whether the run is over.
  bool train();
  void save_before_parking();
  void leave_broken(const std::string& why);

  // plans.cc: from one plan to the next
  std::optional<Plan> next_plan();
  static bool takes_part(const Plan& plan, const Registration& worker);
  bool takes_part(const Plan& plan);
  // The one that holds where this worker stands.
  Plan in_force(const Plan& plan);
  void take(const Plan& plan);
  // Without a new plan, and by one that this worker has no part in -> whether it ends.
  bool ends_waiting(bool is_to_go);
  bool ends_without(const SeenPlan& seen, const Plan& plan);
  void give_state_up(const Plan& plan);
  void tell_state();
  bool was_removed();
  void ask_to_regroup();

  // change.cc: into a generation
  // -> false: this worker has given what it held, and is no member.
  bool enter(const Plan& plan);
  parallel::Launch launch_of(const Plan& plan, const std::vector<Member>& all);
  std::unique_ptr<parallel::World> make_world(
      const Plan& plan, int64_t number, bool with_leaving,
      const std::shared_ptr<parallel::Interrupt>& interrupt);
  int64_t own_rank(const Plan& plan);
  void settle_step(const StepAgreement& agreement, StepChoice own, const Plan& plan);
  CommittedState committed(parallel::World& meeting);
  void lay_out(Members& next, const StepAgreement& agreement, Change& change);
  checkpoint::State make_place(Members& next, bool is_held);
  void begin_generation(const Plan& plan);
  void tell_event(const Plan& plan, const Change& change, int64_t steps_lost);

  const EtcdClient& client_;
  RunKeys keys_;
  train::TrainConfig config_;
  WorkerOptions options_;
  std::string collectives_;  // what carries tensors in host memory; empty: any
  Pulse pulse_;
  train::TrainingRun run_;
  std::unique_ptr<EtcdClient> fence_client_;
  PlanWatch plans_;
  Offers offers_;
  std::optional<Presence> presence_;
  std::optional<StandbyScheduler> standby_;
  std::optional<PlanFollower> follower_;
  std::optional<Journal> journal_;
  StepTimes times_;     // of this generation
  double pause_s_ = 0;  // before it

  std::mutex fence_mutex_;          // of the next two, which a thread that writes checkpoints reads
  std::atomic<int64_t> taken_ = 0;  // number of the last plan that this worker went by
  Registration entered_as_;         // in that plan
  Members members_;                 // that this worker is one of, or was: who had its place
  Clock::time_point started_ = Clock::now();
  Clock::time_point lost_since_ = {};  // members_ are lost, and no plan has come since
  bool is_broken_ = false;             // members_ are lost
  bool is_leaving_ = false;
  bool is_parked_ = false;                  // the last plan has no members
  Clock::time_point since_ = Clock::now();  // no step was taken
  Clock::time_point told_ = {};             // the key was brought up to date
  WorkerEnd end_ = WorkerEnd::kDone;
};

}  // namespace fovea::elastic
