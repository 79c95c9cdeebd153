// `fovea profile` under a launcher, on several nodes.
#pragma once

#include "apps/fovea/device_profiler.h"
#include "fovea/elastic/solve/profile.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {

// The first rank of each node measures its devices; then all ranks of the first node, and the first
// ranks of all nodes, their collectives. Every rank gets all of it in `set`. Collective over the
// launch.
void profile_on_nodes(train::TrainConfig config, const ProfilerOptions& options,
                      const parallel::Launch& launch, elastic::ProfileSet& set);

}  // namespace fovea::app
