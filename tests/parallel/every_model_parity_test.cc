// Every model with its task, in float64: what several ranks compute is what one process computes.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

#include "fovea/train/ranks.h"
#include "fovea/train/session.h"
#include "tests/parallel/run_ranks.h"
#include "tests/support/parity.h"
#include "tests/train/model_cases.h"
#include "tests/train/step_gradients.h"

namespace fovea::train {
namespace {

using support::NamedTensors;

constexpr int64_t kSteps = 2;

struct Trained {
  NamedTensors losses, gradients, weights;  // "1/head.weight": of step 1
};

TrainConfig parity_config(const testing::ModelCase& item, const testing::Folder& folder) {
  auto config = item.config(folder);
  config.data.global_batch_size = 7;  // no number of ranks divides it
  config.data.drop_last = false;
  return config;
}

Trained train_some_steps(const TrainConfig& config, int64_t micro_batch_size,
                         parallel::Communicator& ranks) {
  const auto source =
      open_training_data(config, data::Shard{.index = ranks.rank(), .count = ranks.size()});
  const auto model = make_model(config, {});
  model->to(at::kDouble);
  const auto task = make_task(config.task, *model);
  const auto optimizer = make_optimizer(config, *model);
  const auto reducer = make_reducer(config.parallel, *optimizer, ranks);
  StepOptions options{.seed = 7, .micro_batch_size = micro_batch_size, .max_grad_norm = 1};
  options.compute.dtype = at::kDouble;
  options.ranks = &ranks;
  options.sync = reducer.get();
  Trained result;
  for (int64_t step = 0; step < kSteps; ++step) {
    auto batch = source.loader->next();
    const auto outcome =
        testing::gradients_of_step(*model, *task, *optimizer, batch, step, options);
    const auto name = std::to_string(step) + "/";
    const auto number = [](double value) { return at::full({1}, value, at::kDouble); };
    result.losses[name + "loss"] = number(outcome.loss);
    result.losses[name + "weight"] = number(outcome.weight);
    result.losses[name + "grad_norm"] = number(outcome.grad_norm);
    for (const auto& [sum, value] : outcome.sums) result.losses[name + sum] = number(value);
    for (const auto& spec : optimizer->params()) {
      result.gradients[name + spec.name] = spec.param.grad().clone();
    }
    optimizer->step(1e-3);
  }
  for (const auto& item : model->named_parameters()) {
    result.weights[item.key()] = item.value().detach().clone();
  }
  return result;
}

void compare_all_models(parallel::World& world, int64_t micro_batch_size) {
  const testing::Folder folder;
  for (const auto& item : testing::model_cases()) {
    SCOPED_TRACE(item.name);
    const auto config = parity_config(item, folder);
    const auto together = train_some_steps(config, micro_batch_size, world.all());
    if (!world.is_first()) continue;
    std::cout << item.name << " on " << world.size() << " ranks\n";
    const auto alone = train_some_steps(config, 0, parallel::one_rank());
    EXPECT_PARITY(together.losses, alone.losses, at::kDouble);
    EXPECT_PARITY(together.gradients, alone.gradients, at::kDouble);
    EXPECT_PARITY(together.weights, alone.weights, at::kDouble);
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

// Weights of parts that differ: a rank's only sample is one that cannot be read, or is padding.
TEST(EveryModelParityTest, UnequalWeights) {
  parallel::testing::run_ranks(3, [](parallel::World& world) {
    const testing::Folder folder;
    auto config = testing::tiny_config(folder);
    config.data.global_batch_size = 4;  // 2, 1 and 1 rows: with padding 2 each
    config.data.mixup = {.mixup_alpha = 0.8, .cutmix_alpha = 1.0, .mode = "elem"};
    const auto together = train_some_steps(config, 1, world.all());
    if (!world.is_first()) return;
    const auto alone = train_some_steps(config, 0, parallel::one_rank());
    EXPECT_EQ(together.losses.at("0/weight").item<double>(), 4);
    EXPECT_PARITY(together.losses, alone.losses, at::kDouble);
    EXPECT_PARITY(together.gradients, alone.gradients, at::kDouble);
    EXPECT_PARITY(together.weights, alone.weights, at::kDouble);
  });
}

// One exchange of gradients in a step, however many micro-batches, and one of the step's numbers.
TEST(EveryModelParityTest, CollectivesOfAStepAreCounted) {
  parallel::testing::run_ranks(2, [](parallel::World& world) {
    const testing::Folder folder;
    const auto config = testing::tiny_config(folder);
    auto& ranks = world.all();
    const auto source =
        open_training_data(config, data::Shard{.index = ranks.rank(), .count = ranks.size()});
    const auto model = make_model(config, {});
    const auto task = make_task(config.task, *model);
    const auto optimizer = make_optimizer(config, *model);
    const auto reducer = make_reducer(config.parallel, *optimizer, ranks);
    StepOptions options{.micro_batch_size = 3};
    options.ranks = &ranks;
    options.sync = reducer.get();
    auto batch = source.loader->next();
    ranks.reset_counts();
    testing::gradients_of_step(*model, *task, *optimizer, batch, 0, options);
    const auto num_buckets = static_cast<int64_t>(reducer->buckets().size());
    constexpr int64_t kNumbers = 5;  // loss, weight, two notes and top1, float64
    const auto bytes = static_cast<int64_t>(optimizer->flat_grad().nbytes()) + 8 * kNumbers;
    const parallel::CollectiveCounts expected = {
        {parallel::Collective::kAllReduce, {num_buckets + 1, bytes}}};
    EXPECT_EQ(ranks.counts(), expected);
  });
}

// Ranks that mix their rows among themselves, as timm's do, leave the padding out.
TEST(ShardPaddingTest, CountsForNothingInMixedBatches) {
  const testing::Folder folder;
  auto config = testing::tiny_config(folder);
  config.data.global_batch_size = 4;
  config.data.mixup = {.mixup_alpha = 0.8, .mode = "elem", .timm_local = true};
  const auto source = open_training_data(config, {.index = 1, .count = 3});
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
