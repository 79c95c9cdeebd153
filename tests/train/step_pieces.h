// What a step needs, of the tiny run or another one.
#pragma once

#include <functional>
#include <memory>

#include "fovea/train/session.h"
#include "tests/train/tiny_run.h"

namespace fovea::train::testing {

struct StepPieces {
  using MakeConfig = std::function<TrainConfig(const data::testing::TempDir& folder)>;

  explicit StepPieces(const MakeConfig& make =
                          [](const data::testing::TempDir& given) { return tiny_config(given); })
      : config(make(folder)) {}

  data::testing::TempDir folder;
  TrainConfig config;
  DatasetWithLoader source = open_training_data(config);
  models::ModelPtr model = make_model(config, {});
  std::unique_ptr<Task> task = make_task(config.task, *model);
  std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(config, *model);
};

}  // namespace fovea::train::testing
