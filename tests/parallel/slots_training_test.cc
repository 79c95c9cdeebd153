// Trainings with slots: the bits of one process on any number of them, and unequal shares.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/kernels/saved_activation.h"
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
    if (outcome.halves) {
      run.numbers.back()["first_square"] = outcome.halves->first_square;
      run.numbers.back()["product"] = outcome.halves->product;
      run.numbers.back()["first_weight"] = outcome.halves->first_weight;
    }
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
    config.elastic.similarity_target = 0.3;  // and so what halves come to
    expect_same_on_any_ranks(outer, "five", config, Numbers::kAtOnce);
    expect_same_on_any_ranks(outer, "five_late", config, Numbers::kLate);
    kernels::choose_saved_activations("bfloat16");
    expect_same_on_any_ranks(outer, "rounded", config, Numbers::kAtOnce);
    kernels::choose_saved_activations("full");
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

// <A, A>, <B, B>, <A, B> of the gradients of samples [0, middle) and [middle, end) of a batch, each
// by a backward pass of its own.
std::vector<double> plain_halves(testing::ShardedTraining& training, data::Batch& batch,
                                 int64_t middle) {
  auto parts = training.step_parts();
  auto options = training.options;
  options.slots = 0;
  options.sync = nullptr;
  options.ranks = nullptr;
  const StepParts plain{parts.model, parts.task, parts.optimizer, options};
  const auto whole = input_of(batch, plain);
  const auto gradient = [&](int64_t begin, int64_t end) {
    StepInput half = whole;
    half.size = half.global_size = end - begin;
    half.share = {};
    half.tensors = [&, begin](int64_t first, int64_t last) {
      return whole.tensors(begin + first, begin + last);
    };
    prepare_step(plain, half, 0);
    return parts.optimizer.flat_grad().clone();
  };
  const auto a = gradient(0, middle), b = gradient(middle, batch.size());
  return {(a * a).sum().item<double>(), (b * b).sum().item<double>(), (a * b).sum().item<double>()};
}

// In float64: two processes, one over two halves, and the gradients themselves.
TEST(SlotsTrainingTest, HalvesAreThoseOfTheGradients) {
  run_ranks(2, [](World& world) {
    const testing::Folder folder;
    for (const int64_t slots : {2, 5}) {  // 5: halves of 9 and 15 samples of 24
      auto config = with_slots(folder, slots);
      config.elastic.similarity_target = 0.3;
      const parallel::DeviceMesh single(World::single(), {});
      testing::ShardedTraining alone(config, &single);
      auto batch = alone.source.loader->next();
      const auto of_one = outcome_of(prepare_step(alone.step_parts(), batch, 0), alone.options);
      ASSERT_TRUE(of_one.halves);
      const int64_t middle = slots == 2 ? 12 : 9;
      EXPECT_EQ(of_one.halves->first_weight, middle);
      EXPECT_EQ(of_one.halves->second_weight, 24 - middle);
      const auto wanted = plain_halves(alone, batch, middle);
      const double cosine = wanted[2] / std::sqrt(wanted[0] * wanted[1]);
      const double found = *of_one.halves->cosine();
      EXPECT_GT(std::abs(cosine), 0.01);
      EXPECT_NEAR(found, cosine, 1e-12);
      const parallel::DeviceMesh mesh(world, parallel::mesh_shape(config.parallel, 2, 24));
      testing::ShardedTraining shared(config, &mesh);
      auto own = shared.source.loader->next();
      const auto of_two = outcome_of(prepare_step(shared.step_parts(), own, 0), shared.options);
      EXPECT_EQ(of_two.halves->product, of_one.halves->product);
      EXPECT_EQ(of_two.halves->first_square, of_one.halves->first_square);
      EXPECT_EQ(of_two.halves->second_square, of_one.halves->second_square);
      EXPECT_EQ(of_two.halves->first_weight, of_one.halves->first_weight);
      EXPECT_EQ(*of_two.halves->cosine(), found);
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
