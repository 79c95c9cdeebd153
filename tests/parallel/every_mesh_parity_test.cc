// Every model with its task on meshes that share out layers, tokens, parameters and batches, in
// float64: what comes out is what one process computes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/models/partitionings.h"
#include "fovea/train/run/take_over.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

using parallel::ParallelConfig;
using parallel::testing::run_ranks;

std::string text_of(const ParallelConfig& mesh) {
  return fmt::format("dp_replicate {} dp_shard {} (zero {}, outer {}) cp {} tp {}{}, recompute {}",
                     mesh.dp_replicate.value_or(0), mesh.dp_shard, mesh.zero, mesh.shard_outer,
                     mesh.cp, mesh.tp, mesh.sequence_parallel ? " sp" : "", mesh.recompute);
}

TrainConfig whole_batches(TrainConfig config) {
  config.data.global_batch_size = 7;  // no number of ranks divides it
  config.data.drop_last = false;
  config.trainer.max_grad_norm = 1;
  return config;
}

// In micro-batches of two; `alone`: on the first rank.
void compare(parallel::World& world, TrainConfig config, const ParallelConfig& mesh_config,
             const std::optional<testing::ShardedRun>& alone, at::ScalarType dtype = at::kDouble) {
  SCOPED_TRACE(text_of(mesh_config));
  config.parallel = mesh_config;
  const parallel::DeviceMesh mesh(
      world, parallel::mesh_shape(mesh_config, world.size(), config.data.global_batch_size));
  const auto together = testing::run_sharded(config, &mesh, 2);
  if (!alone) return;
  std::cout << text_of(mesh_config) << "\n";
  testing::expect_same_run(together, *alone, dtype);
}

void compare_meshes(parallel::World& world, const std::vector<ParallelConfig>& meshes,
                    const std::vector<testing::ModelCase>& cases) {
  const testing::Folder folder;
  for (const auto& item : cases) {
    SCOPED_TRACE(item.name);
    const auto config = whole_batches(item.config(folder));
    std::optional<testing::ShardedRun> alone;
    if (world.is_first()) {
      std::cout << item.name << "\n";
      alone = testing::run_sharded(config, nullptr);
    }
    const bool has_sequences = !models::partitioning_of(config.model).regions.empty();
    for (const auto& mesh : meshes) {
      const bool shares_tokens = mesh.cp > 1 || mesh.sequence_parallel;
      if (has_sequences || !shares_tokens) compare(world, config, mesh, alone);
    }
  }
}

TEST(EveryMeshParityTest, LayersOrTokensOverTwoRanks) {
  run_ranks(2, [](parallel::World& world) {
    compare_meshes(world,
                   {{.tp = 2},
                    {.tp = 2, .sequence_parallel = true, .recompute = "block"},
                    {.cp = 2, .recompute = "mlp"}},
                   testing::model_cases());
  });
}

TEST(EveryMeshParityTest, LayersWithBatchesOrParametersOverFourRanks) {
  run_ranks(4, [](parallel::World& world) {
    compare_meshes(world,
                   {{.tp = 2, .sequence_parallel = true, .recompute = "attention"},
                    {.dp_shard = 2, .tp = 2},
                    {.dp_shard = 2, .tp = 2, .sequence_parallel = true, .recompute = "block"},
                    {.dp_shard = 2, .zero = 2, .cp = 2}},
                   testing::model_cases());
  });
}

// Copies x shards x layers with tokens; so many shards that some have no norm; copies x shards x
// tokens of long sequences; and pieces by size.
TEST(EveryMeshParityTest, ThreeAxesOverEightRanks) {
  run_ranks(8, [](parallel::World& world) {
    compare_meshes(
        world,
        {{.dp_replicate = 2, .dp_shard = 2, .tp = 2, .sequence_parallel = true},
         {.dp_shard = 4, .tp = 2, .sequence_parallel = true, .recompute = "block"},
         {.dp_replicate = 2, .dp_shard = 2, .zero = 1, .cp = 2},
         {.dp_replicate = 2, .dp_shard = 2, .min_num_params = 1, .tp = 2, .recompute = "mlp"},
         {.dp_replicate = 2, .dp_shard = 2, .shard_outer = "optimizer", .tp = 2},
         {.dp_replicate = 4, .shard_outer = "optimizer", .tp = 2, .sequence_parallel = true},
         {.dp_replicate = 2, .dp_shard = 2, .shard_outer = "optimizer", .cp = 2}},
        {testing::model_cases().front()});
  });
}

// The norms and averages that optimizers and clipping take are those of whole parameters.
TEST(EveryMeshParityTest, EveryOptimizerAndEveryClippingOverFourRanks) {
  run_ranks(4, [](parallel::World& world) {
    const testing::Folder folder;
    testing::for_every_optimizer_and_clipping(
        whole_batches(testing::model_cases().front().config(folder)),
        [&](const TrainConfig& config, at::ScalarType dtype) {
          std::optional<testing::ShardedRun> alone;
          if (world.is_first()) alone = testing::run_sharded(config, nullptr);
          compare(world, config, {.tp = 2}, alone, dtype);
          compare(world, config, {.dp_shard = 2, .tp = 2, .sequence_parallel = true}, alone, dtype);
          compare(world, config, {.dp_replicate = 2, .dp_shard = 2, .shard_outer = "optimizer"},
                  alone, dtype);
        });
  });
}

// Frozen parameters are cut by tp, and not shared out over dp_shard.
TEST(EveryMeshParityTest, FrozenParametersOverFourRanks) {
  run_ranks(4, [](parallel::World& world) {
    const testing::Folder folder;
    auto config = whole_batches(testing::model_cases().front().config(folder));
    for (const auto& patterns : std::vector<std::vector<std::string>>{
             {"patch_embed.*", "blocks.0.*"}, {"*.attn.qkv.*", "blocks.1.norm1.*"}}) {
      config.trainer.freeze = patterns;
      SCOPED_TRACE(patterns.front());
      std::optional<testing::ShardedRun> alone;
      if (world.is_first()) alone = testing::run_sharded(config, nullptr);
      compare(world, config, {.dp_shard = 2, .tp = 2, .sequence_parallel = true}, alone);
      compare(world, config, {.dp_replicate = 2, .shard_outer = "optimizer", .tp = 2}, alone);
    }
  });
}

// Over dp_shard travels what tp has left of each block, and nothing else.
TEST(EveryMeshParityTest, CollectivesOfAStepAreCountedOverFourRanks) {
  run_ranks(4, [](parallel::World& world) {
    using parallel::Collective;
    using parallel::CollectiveCount;
    const testing::Folder folder;
    auto config = testing::tiny_config(folder);
    std::map<int64_t, int64_t> bytes_of_blocks;  // by tp
    for (const int64_t tp : {1, 2}) {
      SCOPED_TRACE(tp);
      config.parallel = {.dp_replicate = 2 / tp, .dp_shard = 2, .tp = tp};
      const parallel::DeviceMesh mesh(world, parallel::mesh_shape(config.parallel, 4, 10));
      testing::ShardedTraining training(config, &mesh);
      training.compute(0);  // the order of the units is known after this
      training.optimizer->step(1e-3);
      auto& ranks = mesh.axis(parallel::MeshAxis::kDpShard);
      ranks.reset_counts();
      training.compute(1);
      const auto& shards = *training.shards;
      const int64_t num_blocks = shards.num_pieces() - 1;
      int64_t all = shards.piece_bytes(num_blocks);
      for (int64_t k = 0; k < num_blocks; ++k) bytes_of_blocks[tp] += shards.piece_bytes(k);
      all += bytes_of_blocks[tp];
      const parallel::CollectiveCounts expected = {
          {Collective::kReduceScatter, {num_blocks + 1, all}},
          {Collective::kAllGather, {2 * num_blocks, 2 * bytes_of_blocks[tp]}},
          // Of the norm; and of a step's six numbers, where these are all that have other samples.
          {Collective::kAllReduce,
           tp == 1 ? CollectiveCount{1, 8} : CollectiveCount{2, 8 + 6 * 8}}};
      EXPECT_EQ(ranks.counts(), expected);
    }
    EXPECT_LT(bytes_of_blocks[2], 0.6 * static_cast<double>(bytes_of_blocks[1]));
  });
}

// Over dp_replicate travel shares of gradients and weights, once a step, however many micro-batches
// it has; what the optimizer keeps stands nowhere twice.
TEST(EveryMeshParityTest, OuterPartsAreCountedOverFourRanks) {
  run_ranks(4, [](parallel::World& world) {
    using parallel::Collective;
    const testing::Folder folder;
    auto config = testing::tiny_config(folder);
    int64_t whole = 0;
    for (const auto& [name, moment] : testing::ShardedTraining(config, nullptr).optimizer->state())
      whole += moment.numel();
    for (const int64_t copies : {2, 4}) {
      SCOPED_TRACE(copies);
      const int64_t num_shards = 4 / copies;
      config.parallel = {.dp_replicate = copies, .dp_shard = num_shards};
      config.parallel.shard_outer = "optimizer";
      const parallel::DeviceMesh mesh(world, parallel::mesh_shape(config.parallel, 4, 10));
      testing::ShardedTraining training(config, &mesh);
      training.options.micro_batch_size = 1;
      training.compute(0);  // the order of the units is known after this
      training.optimizer->step(1e-3);
      auto& ranks = mesh.axis(parallel::MeshAxis::kDpReplicate);
      ranks.reset_counts();
      training.compute(1);
      const auto of_step = ranks.counts();
      ranks.reset_counts();
      training.optimizer->step(1e-3);
      const auto of_update = ranks.counts();
      const auto& shards = *training.shards;
      int64_t shares = 0;
      for (int64_t k = 0; k < shards.num_pieces(); ++k) shares += shards.piece_bytes(k);
      shares /= num_shards;
      const parallel::CollectiveCount once{shards.num_pieces(), shares};
      EXPECT_EQ(of_step.at(Collective::kReduceScatter), once);
      EXPECT_FALSE(of_step.contains(Collective::kAllGather));
      EXPECT_EQ(of_update, (parallel::CollectiveCounts{{Collective::kAllGather, once}}));
      int64_t own = 0;
      for (const auto& [name, moment] : training.optimizer->state()) own += moment.numel();
      EXPECT_LT(static_cast<double>(own), 0.3 * static_cast<double>(whole));
      std::array all = {static_cast<double>(own)};
      parallel::sum_over_ranks(world.all(), all, "moments");
      EXPECT_EQ(all[0], static_cast<double>(whole));
    }
  });
}

// What a timm run left behind becomes each rank's parts of it.
TEST(EveryMeshParityTest, MomentsOfAnotherSystemOverFourRanks) {
  run_ranks(4, [](parallel::World& world) {
    const auto golden = support::load_golden("moving_timm.safetensors");
    TrainConfig config;
    config.device = {.type = "cpu", .dtype = "float32"};
    config.model = {support::config_from_json<models::VitConfig>(golden.config.at("vit"))};
    config.optim = {support::config_from_json<optim::AdamWConfig>(golden.config.at("optim"))};
    config.init.weights = config.init.optimizer = support::golden_path("moving/timm.pth.tar");
    config.parallel = {.dp_shard = 2, .tp = 2};
    const parallel::DeviceMesh mesh(world, parallel::mesh_shape(config.parallel, 4, 8));
    const ModelStart start(config, {});
    const auto& model = start.model();
    const auto layers = share_out_model(config, *model, mesh);
    const auto shards = make_shards(config, *model, mesh, start.values(*layers));
    const Sharing sharing{.shards = shards.get(), .layers = layers.get()};
    const auto optimizer = make_optimizer(config, *model, sharing);
    const auto steps = take_over_run(config, *model, *optimizer, nullptr);
    const auto alone = make_model(config, {});
    const auto expected = make_optimizer(config, *alone);
    EXPECT_EQ(steps, take_over_run(config, *alone, *expected, nullptr));
    const auto moments = optimizer->state(), whole = expected->state();
    EXPECT_EQ(moments.size(), whole.size());
    const auto weights = alone->named_parameters();
    for (const auto& spec : optimizer->params()) {
      const auto joined = testing::joined(spec, spec.param.detach(), sharing);
      EXPECT_TRUE(joined.equal(weights[spec.name].detach())) << spec.name;
      for (const std::string moment : {"exp_avg/", "exp_avg_sq/"}) {
        const auto key = moment + spec.name;
        EXPECT_TRUE(testing::joined(spec, moments.at(key), sharing).equal(whole.at(key))) << key;
        EXPECT_GT(whole.at(key).abs().max().item<double>(), 0) << key;
      }
    }
  });
}

}  // namespace
}  // namespace fovea::train
