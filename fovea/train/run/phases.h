// Several trainings as one run: a linear probe and then fine-tuning, pre-training and then
// fine-tuning at another size.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/train/recipe/phase_configs.h"
#include "fovea/train/run/progress.h"
#include "fovea/train/trainer.h"

namespace fovea::train {

struct PhaseResult {
  std::string name;
  FitResult fit;
};

// Trains all phases, or goes on where an earlier process stopped: a finished phase is not trained
// again. Ends early, with the state saved, when a stop signal comes. Before the first step it is
// checked for every phase that its data can be opened and that the weights before it fit its model.
// -> the phases that ran to their end or were stopped, the last one last. Throws as Trainer::fit;
// ConfigError where the folder holds a run of other phases. Collective over the world. observer: of
// each phase.
std::vector<PhaseResult> fit_phases(const TrainConfig& config,
                                    ProgressLine::Mode progress = ProgressLine::Mode::kAuto,
                                    parallel::World& world = parallel::World::single(),
                                    const RunObserver& observer = {});

}  // namespace fovea::train
