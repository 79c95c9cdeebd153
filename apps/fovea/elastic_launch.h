// Elastic runs on this machine: what `fovea elastic scheduler` and `fovea train
// launch.elastic=true` share.
#pragma once

#include <functional>
#include <string>

#include "fovea/elastic/run_host.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {

// Schedules until the run has ended: "done", "stop". A stop signal asks the run to stop, a second
// one, or is_over, ends this at once: empty.
std::string host_until_end(elastic::RunHost& host, const std::function<bool()>& is_over);

// Says what a run came to. Throws ExitRequest: it was stopped.
void end_elastic_run(const train::TrainConfig& config, const std::string& end, bool as_json);

// launch.elastic: starts launch.processes workers beside the scheduler, and waits for the run.
void train_elastically(const train::TrainConfig& config, bool as_json);

}  // namespace fovea::app
