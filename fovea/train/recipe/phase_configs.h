// The phases of a recipe: the config and the folder of each.
//
// A phase is a training of its own, with a config of its own and a folder of its own below the run
// folder, RUN_DIR/1_probe. All that holds for a training holds for each: checkpoints, exact resume,
// metrics, a report. What joins them is the weights that the next one starts from.
#pragma once

#include <string>
#include <vector>

#include "fovea/train/recipe/config.h"

namespace fovea::train {

struct Phase {
  std::string name;
  std::string start_from;  // as PhaseConfig's; "none" for the first one
  TrainConfig config;      // without phases; run.dir is the phase's folder
};

// The phases of a recipe, in order; empty where it names none. `init` of the recipe is that of the
// first phase: a later one loads all weights of the one before it, unless its own `set` says
// otherwise. Throws ConfigError with the file and line of each fault: a name that is no name or
// stands twice, an unknown key, a phase that has no weights to start from.
std::vector<Phase> resolve_phases(const TrainConfig& config);

// The checks of `phases` that need no resolved config.
void validate_phases(const TrainConfig& config, ConfigIssues& issues);

// The folder of a phase, counted from 0: RUN_DIR/1_probe.
std::string phase_folder(const std::string& run_dir, size_t index, const std::string& name);

// The folders of the phases of the run in `run_dir` that have begun, in order; empty where the run
// has no phases.
std::vector<std::string> begun_phase_folders(const std::string& run_dir);

}  // namespace fovea::train
