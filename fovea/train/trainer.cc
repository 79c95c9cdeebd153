#include "fovea/train/trainer.h"

#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/train/ranks.h"
#include "fovea/train/training_run.h"

namespace fovea::train {

struct Trainer::Run : TrainingRun {
  Run(const TrainConfig& run_config, ProgressLine::Mode mode, parallel::World& run_world,
      std::unique_ptr<parallel::DeviceMesh> run_mesh)
      : TrainingRun(run_config, mode, process_of(run_world),
                    shares_of(*run_mesh, run_config.parallel)) {
    enter(run_world, std::move(run_mesh));
  }
};

Trainer::Trainer(const TrainConfig& config, ProgressLine::Mode progress, parallel::World& world) {
  if (!config.phases.empty()) {
    fail<ConfigError>("phases: found {}; a Trainer trains one, fit_phases all of them",
                      config.phases.size());
  }
  auto mesh = std::make_unique<parallel::DeviceMesh>(make_mesh(config, world));
  run_ = std::make_unique<Run>(config, progress, world, std::move(mesh));
}

Trainer::~Trainer() = default;

FitResult Trainer::fit(RunObserver observer) {
  run_->observer = std::move(observer);
  try {
    return run_->fit();
  } catch (const Error& error) {
    log_to_file(error.what());
    run_->world().fail(error.what(), error.exit_code());
    throw;
  } catch (const std::exception& error) {
    log_to_file(error.what());
    throw;
  }
}

}  // namespace fovea::train
