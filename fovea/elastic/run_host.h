// The process beside an elastic run: it has the run's folder and recipe, an etcd where none is
// given, and stands for election as its first scheduler.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/control/local_etcd.h"
#include "fovea/elastic/control/records.h"
#include "fovea/elastic/control/scheduler.h"
#include "fovea/train/recipe/run_folder.h"

namespace fovea::elastic {

// Of a run folder: its last part, in characters that a run's name may have.
std::string run_name_of(const std::string& run_dir);

class RunHost {
 public:
  // etcd: where it is; nothing: one is started on this machine, by the calling thread, which must
  // stay. name: of the run; empty: that of its folder. Throws ConfigError: the recipe cannot be
  // trained so, or another run has the name or the folder; EtcdError.
  RunHost(const train::TrainConfig& config, const std::optional<EtcdPlace>& etcd,
          const std::string& name);

  // Where workers find it.
  const RunPlace& place() const { return place_; }
  const EtcdClient& client() const { return *client_; }
  const RunKeys& keys() const { return keys_; }

  // Schedules until the run has ended: "done", "stop"; or until is_told_to_end: empty.
  std::string run(const std::function<bool()>& is_told_to_end);
  // Asks the run to stop, with its state saved.
  void stop();

 private:
  void wait_for_workers();

  train::RunFolder folder_;
  std::unique_ptr<LocalEtcd> own_etcd_;
  std::unique_ptr<EtcdClient> client_;
  RunKeys keys_;
  std::unique_ptr<Scheduler> scheduler_;
  RunPlace place_;
};

}  // namespace fovea::elastic
