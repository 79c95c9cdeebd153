// Parameters shared out over ranks, in float64: what comes out is what one process computes.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <optional>
#include <vector>

#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"

namespace fovea::train {
namespace {

using parallel::testing::run_ranks;

struct ShardedMode {
  const char* name;
  int64_t copies;
  parallel::ParallelConfig config;
  int64_t micro_batch_size = 0;
};

TrainConfig sharded_config(TrainConfig config, const ShardedMode& mode, int64_t world_size) {
  config.parallel = mode.config;
  config.parallel.dp_replicate = mode.copies;
  config.parallel.dp_shard = world_size / mode.copies;
  return config;
}

void compare_modes(parallel::World& world, const std::vector<ShardedMode>& modes,
                   const std::vector<testing::ModelCase>& cases) {
  const testing::Folder folder;
  for (const auto& item : cases) {
    auto config = item.config(folder);
    config.data.global_batch_size = 7;  // no number of ranks divides it
    config.data.drop_last = false;
    config.trainer.max_grad_norm = 1;
    std::optional<testing::ShardedRun> alone;
    if (world.is_first()) alone = testing::run_sharded(config, nullptr);
    for (const auto& mode : modes) {
      SCOPED_TRACE(std::string(item.name) + ", " + mode.name);
      const auto mesh = testing::sharded_mesh(world, mode.copies);
      const auto together = testing::run_sharded(sharded_config(config, mode, world.size()), &mesh,
                                                 mode.micro_batch_size);
      if (!world.is_first()) continue;
      std::cout << item.name << ", " << mode.name << " on " << world.size() << " ranks\n";
      testing::expect_same_run(together, *alone);
    }
  }
}

TEST(ShardedParityTest, EveryModelOnThreeRanks) {
  run_ranks(3, [](parallel::World& world) {
    compare_modes(world,
                  {{"zero 1", 1, {.zero = 1}},
                   {"zero 2, micro-batches", 1, {.zero = 2}, 2},
                   {"zero 3, micro-batches", 1, {.zero = 3}, 2}},
                  testing::model_cases());
  });
}

TEST(ShardedParityTest, EveryModelOnCopiesOfShards) {
  run_ranks(4, [](parallel::World& world) {
    compare_modes(world, {{"zero 3", 1, {.zero = 3}}, {"hsdp, micro-batches", 2, {.zero = 3}, 2}},
                  testing::model_cases());
    const parallel::ParallelConfig outer{.shard_outer = "optimizer"};
    auto resident = outer, offloaded = outer, by_layer = outer;
    resident.zero = 1;
    offloaded.cpu_offload = true;
    by_layer.min_num_params = 1;
    compare_modes(world,
                  {{"hsdp, outer parts, micro-batches", 2, outer, 2},
                   {"hsdp, outer parts, every layer a piece", 2, by_layer},
                   {"zero 1, outer parts", 2, resident, 2},
                   {"outer parts, on the host", 2, offloaded, 2},
                   {"copies alone, outer parts, micro-batches", 4, outer, 2}},
                  {testing::model_cases().front()});
  });
}

std::vector<testing::ModelCase> some_models() {
  std::vector<testing::ModelCase> chosen;
  for (const auto& item : testing::model_cases()) {
    const std::string name = item.name;
    if (name == "vit_2d" || name == "mae_2d" || name == "unetr_3d" || name == "sap_2d" ||
        name == "diffusion_vit_2d" || name == "vit_adaptive_3d" || name == "t2t_vit" ||
        name == "mae_adaptive_2d") {
      chosen.push_back(item);
    }
  }
  return chosen;
}

TEST(ShardedParityTest, OtherWaysToShare) {
  run_ranks(2, [](parallel::World& world) {
    compare_modes(world,
                  {{"zero 1, micro-batches", 1, {.zero = 1}, 2},
                   {"kept after forward", 1, {.zero = 3, .reshard_after_forward = false}, 2},
                   {"every layer a piece", 1, {.zero = 3, .min_num_params = 1}, 2},
                   {"by size", 1, {.zero = 3, .min_num_params = 1500}}},
                  some_models());
  });
}

// Where there is no GPU the memory of the host is that of the device: not a bit changes.
TEST(ShardedParityTest, OffloadedToTheHost) {
  run_ranks(2, [](parallel::World& world) {
    const testing::Folder folder;
    auto config = testing::model_cases().front().config(folder);
    config.data.global_batch_size = 7;
    config.data.drop_last = false;
    const auto mesh = testing::sharded_mesh(world, 1);
    for (const int64_t zero : {1, 3}) {
      const auto plain = testing::run_sharded(
          sharded_config(config, {"", 1, {.zero = zero}}, world.size()), &mesh, 2);
      const auto offloaded = testing::run_sharded(
          sharded_config(config, {"", 1, {.zero = zero, .cpu_offload = true}}, world.size()), &mesh,
          2);
      for (const auto member : {&testing::ShardedRun::losses, &testing::ShardedRun::gradients,
                                &testing::ShardedRun::weights, &testing::ShardedRun::averages}) {
        ASSERT_EQ((plain.*member).size(), (offloaded.*member).size());
        for (const auto& [name, tensor] : plain.*member) {
          EXPECT_TRUE(tensor.equal((offloaded.*member).at(name))) << name << ", zero " << zero;
        }
      }
    }
  });
}

// The norms and averages that optimizers and clipping take are those of whole parameters.
TEST(ShardedParityTest, EveryOptimizerAndEveryClipping) {
  run_ranks(3, [](parallel::World& world) {
    const testing::Folder folder;
    auto whole = testing::model_cases().front().config(folder);
    whole.data.global_batch_size = 7;
    whole.data.drop_last = false;
    const auto mesh = testing::sharded_mesh(world, 1);
    testing::for_every_optimizer_and_clipping(
        whole, [&](const TrainConfig& config, at::ScalarType dtype) {
          const auto sharded = sharded_config(config, {"", 1, {.zero = 3}}, world.size());
          const auto together = testing::run_sharded(sharded, &mesh);
          if (!world.is_first()) return;
          testing::expect_same_run(together, testing::run_sharded(config, nullptr), dtype);
        });
  });
}

// Frozen parameters stay whole on every rank, wherever they stand in a block.
TEST(ShardedParityTest, FrozenParameters) {
  run_ranks(2, [](parallel::World& world) {
    const testing::Folder folder;
    auto config = testing::model_cases().front().config(folder);
    config.data.global_batch_size = 6;
    for (const auto& patterns : std::vector<std::vector<std::string>>{
             {"patch_embed.*", "blocks.0.*"}, {"*.attn.qkv.*", "blocks.1.norm1.*"}, {"backbone"}}) {
      config.trainer.freeze = patterns;
      SCOPED_TRACE(patterns.front());
      const auto mesh = testing::sharded_mesh(world, 1);
      const auto together = testing::run_sharded(
          sharded_config(config, {"", 1, {.zero = 3}}, world.size()), &mesh, 2);
      if (!world.is_first()) continue;
      testing::expect_same_run(together, testing::run_sharded(config, nullptr));
    }
  });
}

// Each collective of a step, with its bytes: what docs/parallel.md says they cost.
TEST(ShardedParityTest, CollectivesOfAStepAreCounted) {
  run_ranks(2, [](parallel::World& world) {
    using parallel::Collective;
    const testing::Folder folder;
    const auto base = testing::tiny_config(folder);
    for (const int64_t zero : {1, 2, 3}) {
      for (const int64_t micro : {0, 3}) {
        SCOPED_TRACE(fmt::format("zero {}, micro-batches of {}", zero, micro));
        const auto config = sharded_config(base, {"", 1, {.zero = zero}}, 2);
        const auto mesh = testing::sharded_mesh(world, 1);
        testing::ShardedTraining training(config, &mesh);
        training.options.micro_batch_size = micro;
        training.compute(0);  // the order of the units is known after this
        training.optimizer->step(1e-3);
        auto& ranks = world.all();
        ranks.reset_counts();
        const auto batch_size = config.data.global_batch_size / 2;
        const int64_t passes = micro > 0 ? (batch_size + micro - 1) / micro : 1;
        training.compute(1);
        const auto of_step = ranks.counts();
        ranks.reset_counts();
        training.optimizer->step(1e-3);
        const auto of_update = ranks.counts();

        const auto& shards = *training.shards;
        int64_t all = 0, of_blocks = 0;  // bytes
        for (int64_t k = 0; k < shards.num_pieces(); ++k) all += shards.piece_bytes(k);
        const int64_t num_blocks = zero == 3 ? shards.num_pieces() - 1 : 0;
        for (int64_t k = 0; k < num_blocks; ++k) of_blocks += shards.piece_bytes(k);
        const int64_t reductions = zero == 1 ? 1 : passes;
        ASSERT_TRUE(of_step.contains(Collective::kReduceScatter));
        EXPECT_EQ(of_step.at(Collective::kReduceScatter).calls, reductions * shards.num_pieces());
        EXPECT_EQ(of_step.at(Collective::kReduceScatter).bytes, reductions * all);
        if (zero == 3) {
          EXPECT_EQ(of_step.at(Collective::kAllGather).calls, 2 * passes * num_blocks);
          EXPECT_EQ(of_step.at(Collective::kAllGather).bytes, 2 * passes * of_blocks);
        } else {
          EXPECT_FALSE(of_step.contains(Collective::kAllGather));
        }
        EXPECT_EQ(of_update.at(Collective::kAllGather).calls, shards.num_pieces() - num_blocks);
        EXPECT_EQ(of_update.at(Collective::kAllGather).bytes, all - of_blocks);
      }
    }
  });
}

// What is gathered in bfloat16 is what products round it to anyway: the loss of the first step is
// the same, later ones differ by the rounding of gradients.
TEST(ShardedParityTest, MatricesGatheredInBFloat16) {
  run_ranks(2, [](parallel::World& world) {
    const testing::Folder folder;
    const auto base = testing::tiny_config(folder);
    std::map<std::string, std::vector<double>> losses;
    std::map<std::string, int64_t> bytes;
    for (const std::string dtype : {"float32", "bfloat16"}) {
      const auto config = sharded_config(base, {"", 1, {.param_dtype = dtype}}, 2);
      const auto mesh = testing::sharded_mesh(world, 1);
      testing::ShardedTraining training(config, &mesh, at::kBFloat16);
      for (int64_t step = 0; step < 4; ++step) {
        world.all().reset_counts();
        losses[dtype].push_back(training.compute(step).loss);
        bytes[dtype] = world.all().counts().at(parallel::Collective::kAllGather).bytes;
        training.optimizer->step(1e-3);
      }
      const auto spec = training.optimizer->params().front();
      EXPECT_EQ(spec.param.scalar_type(), at::kFloat);
    }
    EXPECT_EQ(losses["float32"][0], losses["bfloat16"][0]);
    for (size_t step = 1; step < 4; ++step) {
      EXPECT_NEAR(losses["float32"][step], losses["bfloat16"][step], 0.02) << step;
    }
    EXPECT_LT(bytes["bfloat16"], 0.6 * static_cast<double>(bytes["float32"]));
  });
}

}  // namespace
}  // namespace fovea::train
