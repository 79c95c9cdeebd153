// A worker of an elastic run: it trains while it is a member, and waits while it is none.
#pragma once

#include <memory>
#include <string>

#include "fovea/core/progress_line.h"
#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/control/records.h"
#include "fovea/parallel/world.h"
#include "fovea/train/recipe/config.h"

namespace fovea::elastic {

// Note [Generations]
// A plan in etcd says who computes what; each is a generation of members, with a world of processes
// and a mesh of its own. Members leave one for the next
// - between two steps, where each says in the notes of a step whether it knows of a newer plan
//   (workers that come, or go by themselves), or
// - where a wait for others ends with a RankError: one of them is lost, as a broken connection
// says,
//   or the newer plan without it, which fires the interrupt of the world.
// Then they meet, with those that go, agree on the step that all have done (agreement.h), and each
// makes its part of the state on the new mesh, which is put together from what all of them hold
// (relay.h). If that breaks off the old state is still there, and the next plan is taken. So a
// worker holds its state, a place (TrainingRun::Place), until it has the next one.
//
// What a run publishes, checkpoints, lines of metrics, events, it publishes under a plan: etcd is
// asked whether that still holds (Fence). While etcd is away nothing is published, and steps go on.

enum class WorkerEnd {
  kDone,     // the run has come to its end
  kStopped,  // it was told to stop, with its state saved
  kLeft      // this worker was told to go
};

struct WorkerOptions {
  std::string name;
  ProgressLine::Mode progress = ProgressLine::Mode::kAuto;
  std::shared_ptr<const parallel::DeviceBackend> device_backend = {};
};

// The recipe's identity: a sum of its keys but for those that touch no order of samples.
std::string identity_of(const train::TrainConfig& config);

// Takes part in the run until it ends, or this worker is told to go (StopSignals: SIGTERM, or
// `fovea elastic scale --remove`). config: the run's. Throws ConfigError: it is another run, or the
// name is taken; EtcdError; Error with exit code kHang where etcd was away for elastic.patience;
// what training throws.
WorkerEnd run_worker(const EtcdClient& client, const RunKeys& keys,
                     const train::TrainConfig& config, const WorkerOptions& options);

}  // namespace fovea::elastic
