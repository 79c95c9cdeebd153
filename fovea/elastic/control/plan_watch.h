// The plan that is in force, and what may be published under it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/control/key_mirror.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

struct SeenPlan {
  Plan plan{};
  int64_t revision = 0;  // of its key: the fencing token
};

// Follows the plan of a run. Safe from several threads.
class PlanWatch {
 public:
  // Throws EtcdError.
  PlanWatch(const EtcdClient& client, const RunKeys& keys)
      : key_(keys.plan()), mirror_(client, one_key(key_)) {}

  // The newest that was seen; nothing: there is none yet. Throws DataError: it is no plan.
  std::optional<SeenPlan> current() const;
  // Waits for one of another revision than `revision`; nothing: there was none in time.
  std::optional<SeenPlan> wait(int64_t revision, std::chrono::milliseconds timeout) const;
  // Since etcd answered last.
  std::chrono::milliseconds silent_for() const { return mirror_.silent_for(); }

 private:
  std::optional<SeenPlan> plan_of(const KeyMirror::State& state) const;

  std::string key_;
  KeyMirror mirror_;
};

// What a member publishes under a plan stands only where that plan is still in force: etcd compares
// in the same transaction. So one that was stopped or cut off, and goes on, changes nothing.
class Fence {
 public:
  // plan_revision: SeenPlan's.
  Fence(EtcdClient& client, RunKeys keys, int64_t plan_revision)
      : client_(client), keys_(std::move(keys)), plan_revision_(plan_revision) {}

  // Writes the run's commit. False: another plan is in force, nothing was written. Throws
  // EtcdError; the same commit may be published again then.
  bool publish(const Commit& commit);

 private:
  EtcdClient& client_;
  RunKeys keys_;
  int64_t plan_revision_;
};

}  // namespace fovea::elastic
