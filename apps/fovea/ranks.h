// A command that runs in one process or in many.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fovea/parallel/world.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {

// Runs `body` as this process's rank of the run. Where launch.processes asks for several and no
// launcher has started them, this program is started once for each, and this process waits for
// them. When a rank fails all end, with its exit code; one of them tells the user. Throws
// ConfigError before any process is started: the mesh does not fit, launchers that contradict.
void run_in_world(const train::TrainConfig& config,
                  const std::function<void(parallel::World&)>& body);

// Ranks of one machine take its GPUs in turn. -> what makes groups between them, if anything.
std::shared_ptr<const parallel::DeviceBackend> choose_device(const std::string& type,
                                                             const parallel::Launch& launch);

}  // namespace fovea::app
