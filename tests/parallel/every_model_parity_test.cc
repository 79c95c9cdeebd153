// Every model with its task, in float64: what several ranks compute is what one process computes.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/train/model_cases.h"

namespace fovea::train {
namespace {

TrainConfig parity_config(const testing::ModelCase& item, const testing::Folder& folder) {
  auto config = item.config(folder);
  config.data.global_batch_size = 7;  // no number of ranks divides it
  config.data.drop_last = false;
  return config;
}

// What all ranks together make of a recipe, compared with what the first one alone does.
testing::ShardedRun compare_with_one_process(parallel::World& world, TrainConfig config,
                                             int64_t micro_batch_size) {
  config.trainer.max_grad_norm = 1;
  const auto mesh = testing::sharded_mesh(world, world.size());
  auto together = testing::run_sharded(config, &mesh, micro_batch_size);
  if (world.is_first()) testing::expect_same_run(together, testing::run_sharded(config, nullptr));
  return together;
}

void compare_all_models(parallel::World& world, int64_t micro_batch_size) {
  const testing::Folder folder;
  for (const auto& item : testing::model_cases()) {
    SCOPED_TRACE(item.name);
    const auto config = parity_config(item, folder);
    compare_with_one_process(world, config, micro_batch_size);
    if (world.is_first()) std::cout << item.name << " on " << world.size() << " ranks\n";
  }
}

TEST(EveryModelParityTest, TwoRanks) {
  parallel::testing::run_ranks(
      2, [](parallel::World& world) { compare_all_models(world, /*micro_batch_size=*/0); });
}

TEST(EveryModelParityTest, ThreeRanksWithMicroBatches) {
  parallel::testing::run_ranks(
      3, [](parallel::World& world) { compare_all_models(world, /*micro_batch_size=*/2); });
}

// Parts that differ in size and weight.
TEST(EveryModelParityTest, UnequalWeights) {
  parallel::testing::run_ranks(3, [](parallel::World& world) {
    const testing::Folder folder;
    auto config = testing::tiny_config(folder);
    config.data.global_batch_size = 4;  // 1, 1 and 2 rows
    config.data.mixup = {.mixup_alpha = 0.8, .cutmix_alpha = 1.0, .mode = "elem"};
    const auto run = compare_with_one_process(world, config, 1);
    EXPECT_EQ(run.losses.at("0/weight").item<double>(), 4);
  });
}

// One exchange of gradients in a step, however many micro-batches, and one of the step's numbers.
TEST(EveryModelParityTest, CollectivesOfAStepAreCounted) {
  parallel::testing::run_ranks(2, [](parallel::World& world) {
    const testing::Folder folder;
    const auto config = testing::tiny_config(folder);
    const auto mesh = testing::sharded_mesh(world, world.size());
    auto& ranks = mesh.data_parallel();
    const auto source = open_training_data(config, data_share(mesh, config.parallel));
    MeshState state(config, mesh, step_options(config));
    state.options.micro_batch_size = 3;
    auto batch = source.loader->next();
    ranks.reset_counts();
    prepare_step(state.step_parts(), batch, 0);
    const auto& reducer = dynamic_cast<parallel::GradientReducer&>(*state.reducer);
    const auto num_buckets = static_cast<int64_t>(reducer.buckets().size());
    constexpr int64_t kNumbers = 6;  // loss, weight, three notes and top1, float64
    const auto bytes = static_cast<int64_t>(state.optimizer->flat_grad().nbytes()) + 8 * kNumbers;
    const parallel::CollectiveCounts expected = {
        {parallel::Collective::kAllReduce, {num_buckets + 1, bytes}}};
    EXPECT_EQ(ranks.counts(), expected);
  });
}

// Ranks that mix their rows among themselves, as timm's do, leave the padding out.
TEST(SharePaddingTest, CountsForNothingInMixedBatches) {
  const testing::Folder folder;
  auto config = testing::tiny_config(folder);
  config.data.global_batch_size = 4;
  config.data.mixup = {.mixup_alpha = 0.8, .mode = "elem", .timm_local = true};
  auto setup = open_training_setup(config, data::BatchShare::of_rank(1, 3));
  setup.options.pad_shares = true;
  const auto source = make_loader(std::move(setup));
  for (int i = 0; i < 5; ++i) {
    const auto batch = source.loader->next();
    EXPECT_EQ(batch.global_size, 4);
    EXPECT_EQ(batch.weights, (std::vector<float>{1, 0}));
    EXPECT_EQ(batch.indices[1], -1);
    const std::vector<float> padding(batch.targets.begin() + 4, batch.targets.end());
    EXPECT_EQ(padding, std::vector<float>(4, 0));
    EXPECT_EQ(std::accumulate(batch.targets.begin(), batch.targets.begin() + 4, 0.0f), 1);
  }
}

}  // namespace
}  // namespace fovea::train
