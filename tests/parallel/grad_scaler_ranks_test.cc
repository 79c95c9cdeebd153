// Scaled losses and skipped work in several processes, in float64: what comes out is what one
// process computes.
#include <gtest/gtest.h>

#include <iostream>
#include <limits>
#include <optional>
#include <vector>

#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/train/step_gradients.h"

namespace fovea::train {
namespace {

using parallel::ParallelConfig;
using parallel::testing::run_ranks;

struct ScaledRun {
  support::NamedTensors numbers, weights;
  std::vector<bool> skipped;
  std::vector<double> scales;
};

// Four steps; in the one of index 1 the last sample of the batch has a pixel that is no number.
ScaledRun run_scaled(const TrainConfig& config, const parallel::DeviceMesh* mesh) {
  testing::ShardedTraining training(config, mesh);
  optim::GradScaler scaler({.growth_interval = 2});
  training.options.scaler = &scaler;
  training.options.micro_batch_size = mesh ? 2 : 0;
  ScaledRun run;
  for (int64_t step = 0; step < 4; ++step) {
    auto batch = training.source.loader->next();
    const bool has_last = batch.share.last == batch.share.of;
    if (step == 1 && has_last) batch.images.back() = std::numeric_limits<float>::quiet_NaN();
    const auto outcome = testing::gradients_of_step(
        *training.model, *training.task, *training.optimizer, batch, step, training.options);
    run.skipped.push_back(outcome.is_skipped);
    run.scales.push_back(outcome.loss_scale);
    if (outcome.is_skipped) continue;
    const auto name = std::to_string(step);
    run.numbers[name + "/loss"] = at::full({1}, outcome.loss, at::kDouble);
    run.numbers[name + "/grad_norm"] = at::full({1}, outcome.grad_norm, at::kDouble);
    training.optimizer->step(1e-3);
  }
  run.weights = training.weights();
  return run;
}

TrainConfig batches_of_eight(const testing::Folder& folder) {
  auto config = testing::model_cases().front().config(folder);
  config.data.global_batch_size = 8;
  config.trainer.max_grad_norm = 0.1;
  return config;
}

// Whatever the ranks share out: all of them leave out the step that is not finite on one, and no
// other.
TEST(GradScalerRanksTest, AllRanksSkipTheSameSteps) {
  run_ranks(2, [](parallel::World& world) {
    const testing::Folder folder;
    const auto config = batches_of_eight(folder);
    std::optional<ScaledRun> alone;
    if (world.is_first()) alone = run_scaled(config, nullptr);
    for (const ParallelConfig& shared :
         {ParallelConfig{.dp_replicate = 2}, ParallelConfig{.dp_shard = 2, .zero = 3},
          ParallelConfig{.dp_replicate = 2, .shard_outer = "optimizer"},
          ParallelConfig{.tp = 2, .sequence_parallel = true}, ParallelConfig{.cp = 2}}) {
      auto own = config;
      own.parallel = shared;
      const parallel::DeviceMesh mesh(world, parallel::mesh_shape(shared, world.size(), 8));
      const auto together = run_scaled(own, &mesh);
      EXPECT_EQ(together.skipped, (std::vector<bool>{false, true, false, false}));
      EXPECT_EQ(together.scales, (std::vector<double>{65536, 32768, 32768, 65536}));
      if (!alone) continue;
      EXPECT_EQ(alone->skipped, together.skipped);
      EXPECT_EQ(alone->scales, together.scales);
      EXPECT_PARITY(together.numbers, alone->numbers, at::kDouble);
      EXPECT_PARITY(together.weights, alone->weights, at::kDouble);
    }
  });
}

// Ranks keep other numbers of samples, and layers that are gathered one by one are gathered alike.
TEST(GradScalerRanksTest, RanksThatSkipDroppedSamplesComputeWhatOneProcessDoesWithout) {
  run_ranks(2, [](parallel::World& world) {
    const testing::Folder folder;
    auto config = batches_of_eight(folder);
    auto vit = *config.model.get_if<models::VitConfig>();
    vit.drop_path_rate = 0.7;
    config.model = {vit};
    std::optional<testing::ShardedRun> alone;
    if (world.is_first()) alone = testing::run_sharded(config, nullptr);
    vit.drop_path_skip = true;
    config.model = {vit};
    for (const ParallelConfig& shared :
         {ParallelConfig{.dp_replicate = 2},
          ParallelConfig{.dp_shard = 2, .zero = 3, .min_num_params = 1},
          ParallelConfig{.tp = 2, .sequence_parallel = true, .recompute = "block"},
          ParallelConfig{.cp = 2, .recompute = "mlp"}}) {
      auto own = config;
      own.parallel = shared;
      const parallel::DeviceMesh mesh(world, parallel::mesh_shape(shared, world.size(), 8));
      const auto together = testing::run_sharded(own, &mesh, 2);
      if (alone) testing::expect_same_run(together, *alone);
    }
  });
}

}  // namespace
}  // namespace fovea::train
