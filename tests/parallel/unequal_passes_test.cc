// Ranks that differ in their passes of a step, down to none.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/train/step/stepper.h"
#include "tests/parallel/inner_world.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/support/tolerance.h"

namespace fovea::train {
namespace {

using parallel::ParallelConfig;
using parallel::World;
using parallel::testing::run_ranks;

// Batches of 7 samples and of 2, in turns: some ranks have fewer passes than others, some none.
TrainConfig small_batches(const testing::Folder& folder) {
  auto config = testing::tiny_config(folder);
  config.data.train = testing::write_tiny_set(folder, "nine", 9, 1);
  config.data.global_batch_size = 7;
  return config;
}

// In float64, whatever the ranks share out.
TEST(UnequalPassesTest, RanksWithFewerSamplesOrNoneGoAlong) {
  run_ranks(3, [](World& world) {
    const testing::Folder folder;
    const auto config = small_batches(folder);
    const auto alone = testing::run_sharded(config, nullptr);
    for (const ParallelConfig& shared :
         {ParallelConfig{.dp_replicate = 3}, ParallelConfig{.dp_shard = 3, .zero = 1},
          ParallelConfig{.dp_shard = 3, .zero = 2}, ParallelConfig{.dp_shard = 3, .zero = 3},
          ParallelConfig{.dp_shard = 3, .reshard_after_forward = false},
          ParallelConfig{.dp_shard = 3, .min_num_params = 1, .recompute = "block"},
          ParallelConfig{.dp_replicate = 3, .shard_outer = "optimizer"}}) {
      auto own = config;
      own.parallel = shared;
      SCOPED_TRACE(dump_config(own));
      const parallel::DeviceMesh mesh(world, parallel::mesh_shape(shared, world.size(), 7));
      for (const int64_t micro_batch_size : {0, 1, 2}) {
        testing::expect_same_run(testing::run_sharded(own, &mesh, micro_batch_size), alone);
      }
    }
  });
}

// Two copies of two shards: with 2 samples one shard of each has none, and with one sample a whole
// copy.
TEST(UnequalPassesTest, ACopyWithoutSamplesMeetsTheOthers) {
  run_ranks(4, [](World& world) {
    const testing::Folder folder;
    auto config = small_batches(folder);
    config.data.train = testing::write_tiny_set(folder, "eight", 8, 1);  // of 7 and of 1
    const auto alone = testing::run_sharded(config, nullptr);
    for (const ParallelConfig& shared :
         {ParallelConfig{.dp_replicate = 2, .dp_shard = 2, .zero = 3},
          ParallelConfig{.dp_replicate = 2, .dp_shard = 2, .zero = 2},
          ParallelConfig{.dp_replicate = 2, .dp_shard = 2, .zero = 3, .shard_outer = "optimizer"},
          ParallelConfig{.dp_replicate = 1, .dp_shard = 2, .tp = 2},
          ParallelConfig{.dp_replicate = 2, .cp = 2}}) {
      auto own = config;
      own.parallel = shared;
      SCOPED_TRACE(dump_config(own));
      const parallel::DeviceMesh mesh(world, parallel::mesh_shape(shared, world.size(), 7));
      for (const int64_t micro_batch_size : {0, 1}) {
        testing::expect_same_run(testing::run_sharded(own, &mesh, micro_batch_size), alone);
      }
    }
  });
}

// A loss of the whole batch needs all samples before the first backward, also those of others.
TEST(UnequalPassesTest, LossesOfTheWholeBatch) {
  run_ranks(3, [](World& world) {
    const testing::Folder folder;
    int64_t count = 0;
    for (const auto& item : testing::model_cases()) {
      auto config = item.config(folder);
      if (!make_task(config.task, *make_model(config, {}))->has_loss_of_batch()) continue;
      SCOPED_TRACE(item.name);
      ++count;
      config.data.global_batch_size = 2;
      const auto alone = testing::run_sharded(config, nullptr);
      for (const ParallelConfig& shared :
           {ParallelConfig{.dp_replicate = 3}, ParallelConfig{.dp_shard = 3}}) {
        auto own = config;
        own.parallel = shared;
        const auto mesh = testing::sharded_mesh(world, shared.dp_shard == 3 ? 1 : 3);
        testing::expect_same_run(testing::run_sharded(own, &mesh, 0), alone);
      }
    }
    EXPECT_GT(count, 0);
  });
}

// Scales begin with the samples of the batch, and names of sums come from ranks that have some.
TEST(UnequalPassesTest, ScaledLossesAndLateNumbers) {
  run_ranks(3, [](World& world) {
    const testing::Folder folder;
    auto config = small_batches(folder);
    config.data.train = testing::write_tiny_set(folder, "two", 2, 1);
    config.data.global_batch_size = 2;
    const parallel::DeviceMesh single(World::single(), {});
    for (const bool is_scaled : {false, true}) {
      for (const int64_t copies : {3, 1}) {
        config.trainer.grad_scaler.enabled = is_scaled;
        auto own = config;
        own.parallel.dp_shard = 3 / copies;
        const auto mesh = testing::sharded_mesh(world, copies);
        testing::ShardedTraining alone(config, &single, at::kFloat), all(own, &mesh, at::kFloat);
        Stepper of_one(alone.step_parts(), Numbers::kAtOnce);
        Stepper of_all(all.step_parts(), is_scaled ? Numbers::kAtOnce : Numbers::kLate);
        for (int64_t step = 0; step < 3; ++step) {
          auto whole = alone.source.loader->next(), part = all.source.loader->next();
          EXPECT_EQ(part.size(), world.rank() == 0 ? 0 : 1);
          of_one.take(whole, step, 1e-2);
          of_all.take(part, step, 1e-2);
        }
        const auto wanted = of_one.outcomes(), found = of_all.outcomes();
        for (size_t i = 0; i < 3; ++i) {
          EXPECT_NEAR(found[i].loss, wanted[i].loss,
                      support::Tolerance::for_dtype(at::kFloat).rtol * wanted[i].loss);
          EXPECT_EQ(found[i].weight, wanted[i].weight);
          EXPECT_EQ(found[i].loss_scale, wanted[i].loss_scale);
          ASSERT_EQ(found[i].sums.size(), wanted[i].sums.size());
          EXPECT_FALSE(found[i].sums.empty());
        }
      }
    }
  });
}

}  // namespace
}  // namespace fovea::train
