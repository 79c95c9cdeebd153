// Trainings with slots: the bits of one process on any number of them, and unequal shares.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/train/step/pass_size.h"
#include "fovea/train/step/stepper.h"
#include "tests/parallel/inner_world.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/support/close.h"

namespace fovea::train {
namespace {

using parallel::World;
using parallel::testing::run_ranks;
using parallel::testing::with_ranks;

struct SlotRun {
  std::vector<std::map<std::string, double>> numbers;  // of each step
  checkpoint::State state;
};

using Change = std::function<void(testing::ShardedTraining&)>;

// Six steps over batches of 24 of 100 samples, of which the fifth has 4, over half of the slots.
SlotRun train_slots(const TrainConfig& config, const parallel::DeviceMesh& mesh, Numbers numbers,
                    const Change& change = {}) {
  testing::ShardedTraining training(config, &mesh, at::kFloat);
  if (change) change(training);
  Stepper stepper(training.step_parts(), numbers);
  EXPECT_EQ(stepper.is_late(), numbers == Numbers::kLate);
  for (int64_t step = 0; step < 6; ++step) {
    auto batch = training.source.loader->next();
    EXPECT_EQ(batch.global_size, step == 4 ? 4 : 24);
    stepper.take(batch, step, 3e-3);
  }
  SlotRun run;
  for (const auto& outcome : stepper.outcomes()) {
    run.numbers.push_back({{"loss", outcome.loss},
                           {"weight", outcome.weight},
                           {"grad_norm", outcome.grad_norm},
                           {"loss_scale", outcome.loss_scale}});
    run.numbers.back().insert(outcome.sums.begin(), outcome.sums.end());
  }
  run.state = training.save();
  return run;
}

void expect_same_bits(const SlotRun& actual, const SlotRun& expected) {
  EXPECT_EQ(actual.numbers.size(), 6u);
  EXPECT_EQ(actual.numbers, expected.numbers);
  EXPECT_EQ(actual.state.scalars, expected.state.scalars);
  const auto compare = [](const checkpoint::TensorMap& a, const checkpoint::TensorMap& b) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (const auto& [name, tensor] : a) support::expect_same_bits(tensor, b.at(name), name);
  };
  compare(actual.state.model, expected.state.model);
  compare(actual.state.optimizer, expected.state.optimizer);
  compare(actual.state.ema, expected.state.ema);
}

TrainConfig with_slots(const testing::Folder& folder, int64_t slots) {
  auto config = testing::tiny_config(folder);
  config.parallel.slots = slots;
  return config;
}

// Worlds of 1, 2 and 3 of the ranks, against one process.
// name: of the start, one for each call.
void expect_same_on_any_ranks(World& outer, const std::string& name, const TrainConfig& config,
                              Numbers numbers, const Change& change = {}) {
  const parallel::DeviceMesh single(World::single(), {});
  const auto alone = train_slots(config, single, Numbers::kAtOnce, change);
  for (const std::vector<int64_t>& members :
       std::vector<std::vector<int64_t>>{{0}, {0, 1}, {0, 1, 2}}) {
    SCOPED_TRACE(::testing::Message() << members.size() << " ranks");
    const auto start = name + std::to_string(members.size());
    with_ranks(outer, members, start, [&](World& world) {
      const parallel::DeviceMesh mesh(world,
                                      parallel::mesh_shape(config.parallel, world.size(), 24));
      expect_same_bits(train_slots(config, mesh, numbers, change), alone);
    });
  }
}

TEST(SlotsTrainingTest, AnyNumberOfRanksHasTheBitsOfOne) {
  run_ranks(3, [](World& outer) {
    const testing::Folder folder;
    auto config = with_slots(folder, 8);
    expect_same_on_any_ranks(outer, "slots", config, Numbers::kAtOnce);
    // A size that does not divide the 3 samples of a slot, partners in other ranks.
    config.data.mixup = {.mixup_alpha = 0.8, .cutmix_alpha = 1.0};
    expect_same_on_any_ranks(
        outer, "micro", config, Numbers::kLate,
        [](testing::ShardedTraining& training) { training.options.micro_batch_size = 2; });
    config.parallel.slots = 5;
    expect_same_on_any_ranks(outer, "five", config, Numbers::kAtOnce);
  });
}

// Also of a scale that does not know what a batch weighs, and of sizes that are found by trying.
TEST(SlotsTrainingTest, ScalesAndSoughtSizesAreThoseOfOne) {
  run_ranks(3, [](World& outer) {
    const testing::Folder folder;
    auto config = with_slots(folder, 8);
    config.trainer.grad_scaler.enabled = true;
    config.trainer.grad_scaler.growth_interval = 2;
    std::shared_ptr<PassSize> passes;
    expect_same_on_any_ranks(outer, "scaled", config, Numbers::kAtOnce,
                             [&](testing::ShardedTraining& training) {
                               passes = std::make_shared<PassSize>(2);
                               training.options.passes = passes.get();
                             });
  });
}

// What else there is to be shared out sums in other orders, of the same passes.
TEST(SlotsTrainingTest, ShardsComputeWhatOneProcessDoes) {
  run_ranks(3, [](World& outer) {
    const testing::Folder folder;
    const auto config = with_slots(folder, 5);
    const auto alone = testing::run_sharded(config, nullptr, 2);
    for (const int64_t ranks : {2, 3}) {
      for (int64_t kind = 0; kind < 6; ++kind) {
        auto own = config;
        own.parallel.dp_shard = ranks;
        own.parallel.zero = kind < 3 ? kind + 1 : 3;
        own.parallel.reshard_after_forward = kind != 3;
        if (kind == 4) own.parallel.recompute = "block";
        if (kind == 5) own.parallel.min_num_params = 1;
        SCOPED_TRACE(::testing::Message() << ranks << " ranks, kind " << kind);
        const std::vector<int64_t> members =
            ranks == 2 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0, 1, 2};
        with_ranks(outer, members, "shards" + std::to_string(10 * ranks + kind), [&](World& world) {
          const auto mesh = testing::sharded_mesh(world, 1);
          testing::expect_same_run(testing::run_sharded(own, &mesh, 2), alone);
        });
      }
    }
  });
}

TEST(SlotsConfigTest, RefusesWhatDependsOnWhoComputes) {
  const testing::Folder folder;
  const auto refused = [&](const std::function<void(TrainConfig&)>& change) {
    auto config = with_slots(folder, 8);
    change(config);
    ConfigIssues issues;
    config.validate(issues);
    config.parallel.validate(issues);
    std::string keys;
    for (const auto& issue : issues.all()) keys += issue.key + ";";
    return keys;
  };
  EXPECT_EQ(refused([](TrainConfig&) {}), "");
  EXPECT_EQ(refused([](TrainConfig& config) {
              config.data.mixup = {.mixup_alpha = 1, .timm_local = true};
            }),
            "parallel.slots;");
  EXPECT_EQ(refused([](TrainConfig& config) { config.data.mix = "rank_groups"; }),
            "parallel.slots;");
  EXPECT_EQ(refused([](TrainConfig& config) { config.trainer.cache_features = "first_epoch"; }),
            "parallel.slots;");
  EXPECT_EQ(refused([](TrainConfig& config) { config.parallel.reduce_dtype = "bfloat16"; }),
            "reduce_dtype;");
  int64_t of_batch = 0;
  for (const auto& item : testing::model_cases()) {
    auto config = item.config(folder);
    config.parallel.slots = 4;
    if (!make_task(config.task, *make_model(config, {}))->has_loss_of_batch()) continue;
    ++of_batch;
    const parallel::DeviceMesh single(World::single(), {});
    EXPECT_THROW(testing::ShardedTraining(config, &single), ConfigError) << item.name;
  }
  EXPECT_GT(of_batch, 0);
}

TEST(SlotsConfigTest, EachRankHasASlot) {
  run_ranks(3, [](World& world) {
    const auto mesh = testing::sharded_mesh(world, 3);
    parallel::ParallelConfig config;
    config.slots = 2;
    EXPECT_THROW(data_share(mesh, config), ConfigError);
    config.slots = 8;
    const std::vector<data::BatchShare> shares = {{0, 2, 8}, {2, 5, 8}, {5, 8, 8}};
    EXPECT_EQ(data_share(mesh, config), shares[static_cast<size_t>(world.rank())]);
    EXPECT_EQ(data_share(mesh), data::BatchShare::of_rank(world.rank(), 3));
  });
}

}  // namespace
}  // namespace fovea::train
