// The training loop in user code: the same pieces as the trainer, and the same run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/optim/schedules.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "fovea/train/trainer.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

struct HandRun {
  models::ModelPtr model;
  std::vector<double> losses;
  std::map<std::string, double> metrics;
};

HandRun train_by_hand(const TrainConfig& config) {
  auto training = open_training_data(config);
  auto validation = open_validation_data(config, training.dataset->class_names());
  const parallel::DeviceMesh mesh(parallel::World::single(), {});
  MeshState state(config, mesh, step_options(config));
  const auto num_steps = total_steps(config.trainer, training.loader->batches_per_epoch());
  const optim::Schedule schedule(config.schedule, optim::base_lr(config.optim), num_steps);
  std::vector<double> losses;
  for (int64_t step = 0; step < num_steps; ++step) {
    auto batch = training.loader->next();
    const auto prepared = prepare_step(state.step_parts(), batch, step);
    losses.push_back(outcome_of(prepared, state.options).loss);
    apply_step(state.step_parts(), prepared, schedule.lr(step));
    training.loader->recycle(std::move(batch));
  }
  const auto result =
      evaluate(*state.model, *state.task, *validation.loader, state.options.compute);
  return {state.model, std::move(losses), result->metrics()};
}

TEST(HandLoopTest, GivesTheTrainersLossesMetricsAndWeights) {
  const data::testing::TempDir folder;
  const auto config = testing::tiny_config(folder);
  const auto by_hand = train_by_hand(config);
  const auto by_trainer = Trainer(config, ProgressLine::Mode::kSilent).fit();

  std::vector<double> losses;
  std::ifstream lines(config.run.dir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("split") == "train") losses.push_back(record.at("loss"));
  }
  EXPECT_EQ(by_hand.losses, losses);
  EXPECT_EQ(by_hand.metrics, by_trainer.last_eval);
  const auto weights = load_inference(config.run.dir, {.device = "cpu"}).model->named_parameters();
  for (const auto& item : by_hand.model->named_parameters()) {
    EXPECT_TRUE(weights[item.key()].equal(item.value())) << item.key();
  }
}

}  // namespace
}  // namespace fovea::train
