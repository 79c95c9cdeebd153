// Who writes the plans of a run: one at a time of those that stand for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "fovea/elastic/control/election.h"
#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/control/key_mirror.h"
#include "fovea/elastic/control/next_plan.h"
#include "fovea/elastic/control/proposal.h"
#include "fovea/elastic/control/records.h"
#include "fovea/elastic/control/shares.h"

namespace fovea::elastic {

struct SchedulerOptions {
  std::string name = "scheduler";  // as status shows it
  int64_t lease_seconds = kLeaseSeconds;
  // Workers that come within so long of each other make one change.
  std::chrono::milliseconds settle{500};
  // The last generation that the run's folder knows of; the next one has a larger number.
  int64_t last_generation = 0;
  // Longest time that etcd may be away; 0: any.
  std::chrono::milliseconds patience{0};
  std::shared_ptr<Adviser> adviser = {};  // null: nobody knows profiles
};

// Of one of the keys; nothing: it is not there. Throws DataError: it is no such record.
template <class Record>
std::optional<Record> read_record(const KeyMirror::State& state, const std::string& key) {
  const auto found = state.values.find(key);
  if (found == state.values.end()) return {};
  return from_json<Record>(found->second.value, key);
}
// What etcd holds of a run. A worker whose record is of another version is left out, and named.
Situation situation_of(const KeyMirror::State& state, const RunKeys& keys, std::string* unreadable);

// etcd was away for longer than somebody's patience.
class EtcdAwayError : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kHang; }
};

class Scheduler {
 public:
  // Of a run that is begun, or gone on with, here. Throws ConfigError where another run that is
  // alive has the name: what differs.
  Scheduler(const EtcdClient& client, RunKeys keys, RunRecord run, SchedulerOptions options);
  // Of a run that is there, as a worker has it.
  Scheduler(const EtcdClient& client, RunKeys keys, SchedulerOptions options);

  // Stands for election, and while elected writes plans, until the run has ended ("done", "stop")
  // or is_told_to_end says so (empty). etcd may be away meanwhile. Throws EtcdError where it denies
  // or is full, DataError where keys of the run are none of this program's, EtcdAwayError.
  std::string run(const std::function<bool()>& is_told_to_end);
  bool is_leader() const { return election_.is_leader(); }

 private:
  void claim();
  void begin_anew(const Situation& situation, int64_t plan_revision);
  // situation: what the state says; unreadable: what of it could not be read.
  void schedule(const KeyMirror::State& state, Situation situation, const std::string& unreadable);
  void write(const KeyMirror::State& state, const NextPlan& next);
  // Whether workers that come one after another are waited for.
  bool settles(const Situation& situation, const NextPlan& next);
  std::string end_of(const Situation& situation) const;
  void log(const NextPlan& next);
  // What the leader makes of a situation by itself.
  void judge(Situation& situation);
  void tell(const Proposal& proposal, double now_s);

  std::unique_ptr<EtcdClient> client_;
  RunKeys keys_;
  std::optional<RunRecord> run_;
  int64_t ended_revision_ = -1;  // of the plan of a run before, which this one begins behind
  SchedulerOptions options_;
  Election election_;
  int64_t written_ = 0;  // etcd's revision of the last plan of this one
  std::map<Registration, std::chrono::steady_clock::time_point> seen_;
  ShareWatch shares_;
  std::optional<Proposal> proposal_;  // that etcd has of this one
  double proposed_s_ = 0;             // since when
  std::string told_;                  // what was logged last of what is missing
};

// A scheduler in a thread of a worker, which takes over where the one before has gone. Ends with
// the run.
class StandbyScheduler {
 public:
  StandbyScheduler(const EtcdClient& client, RunKeys keys, SchedulerOptions options);
  ~StandbyScheduler();
  StandbyScheduler(const StandbyScheduler&) = delete;
  StandbyScheduler& operator=(const StandbyScheduler&) = delete;

 private:
  Scheduler scheduler_;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace fovea::elastic
