// Meshes that are larger than any machine here, and what they cost.
#include "fovea/plan/mesh_plan.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/summary.h"
#include "fovea/nn/mlp.h"
#include "fovea/plan/live_memory.h"
#include "fovea/plan/pipeline.h"
#include "tests/train/model_cases.h"
#include "tests/train/tiny_run.h"
#include "tests/train/tiny_segmentation.h"

namespace fovea::plan {
namespace {

using data::testing::message_of;
using parallel::Collective;
using parallel::MeshAxis;
using parallel::MeshShape;
using ::testing::HasSubstr;

// A ViT of 8 heads on a batch for 1,024 ranks.
train::TrainConfig large_config(const data::testing::TempDir& folder) {
  auto config = train::testing::tiny_config(folder);
  models::VitConfig vit;
  vit.img_size = {32};
  vit.patch_size = {4};
  vit.in_chans = 1;
  vit.num_classes = 4;
  vit.embed_dim = 256;
  vit.depth = 4;
  vit.num_heads = 8;
  config.model = {vit};
  config.data.global_batch_size = 4096;
  config.trainer.micro_batch_size = 4;
  return config;
}

parallel::ParallelConfig mesh_of(const MeshShape& shape) {
  parallel::ParallelConfig parallel;
  parallel.dp_replicate = shape.size(MeshAxis::kDpReplicate);
  parallel.dp_shard = shape.size(MeshAxis::kDpShard);
  parallel.cp = shape.size(MeshAxis::kCp);
  parallel.tp = shape.size(MeshAxis::kTp);
  return parallel;
}

// As many passes' activations, and the gradients that each adds.
TEST(MeshPlanTest, PassesAtOnceTakeMemoryForAllOfThem) {
  const data::testing::TempDir folder;
  auto config = large_config(folder);
  config.data.global_batch_size = 12;
  const auto memory_of = [&](std::optional<int64_t> passes) {
    config.trainer.concurrent_passes = passes;
    return rehearse(config, {}, 0).memory;
  };
  const auto one = memory_of(1), two = memory_of(2), many = memory_of(64);
  EXPECT_GT(one.activations, 0);
  EXPECT_EQ(two.activations, 2 * one.activations);
  EXPECT_EQ(two.working - one.working, one.activations + 2 * one.gradients);
  EXPECT_EQ(many.activations, 3 * one.activations);  // of three passes
  EXPECT_EQ(two.state(), one.state());
  EXPECT_EQ(memory_of({}).working, one.working);
}

// The first, a middle and the last rank, and all that share a group with the middle one along an
// axis, do the same along every axis; so each group has one sequence.
TEST(MeshPlanTest, RanksOfAThousandAgree) {
  const data::testing::TempDir folder;
  auto config = large_config(folder);
  const std::vector<MeshShape> meshes = {
      {{1024, 1, 1, 1}}, {{128, 8, 1, 1}}, {{256, 1, 2, 2}}, {{128, 1, 1, 8}}};
  for (const auto& mesh : meshes) {
    config.parallel = mesh_of(mesh);
    config.parallel.sequence_parallel = config.parallel.tp > 1;
    const auto middle = rehearse(config, mesh, 512);
    std::set<int64_t> others = {0, 1023};
    for (size_t axis = 0; axis < parallel::kNumMeshAxes; ++axis) {
      const std::array one = {static_cast<MeshAxis>(axis)};
      others.insert(mesh.group_of(512, one).back());
    }
    for (const auto other : others) {
      EXPECT_NO_THROW(check_same_sequence(middle, rehearse(config, mesh, other))) << other;
    }
    EXPECT_FALSE(middle.counts().empty());
  }
}

TEST(MeshPlanTest, NamesTheFirstCollectiveThatDiffers) {
  const data::testing::TempDir folder;
  auto config = large_config(folder);
  const MeshShape mesh{{512, 1, 1, 2}};
  config.parallel = mesh_of(mesh);
  const auto plain = rehearse(config, mesh, 0);
  config.parallel.recompute = "block";
  const auto recomputed = rehearse(config, mesh, 1);
  EXPECT_THAT(message_of<Error>([&] { check_same_sequence(plain, recomputed); }),
              HasSubstr("along tp: rank 0 has"));
}

// State is P / N of what is shared out, whatever the number of ranks.
TEST(MeshPlanTest, StateFallsWithTheRanks) {
  const data::testing::TempDir folder;
  auto config = large_config(folder);
  const auto state_of = [&](const MeshShape& mesh) {
    config.parallel = mesh_of(mesh);
    return static_cast<double>(rehearse(config, mesh, 0).memory.state());
  };
  const auto whole = state_of({{8, 1, 1, 1}});
  config.parallel.zero = 3;
  EXPECT_LT(state_of({{1, 64, 1, 1}}), whole / 40);  // patch embedding, norm and head stay whole
  EXPECT_LT(state_of({{1, 1, 1, 8}}), whole / 6);
  EXPECT_EQ(state_of({{1, 1, 8, 1}}), whole);
}

TEST(MeshPlanTest, ModelsAreRehearsed) {
  const MeshShape mesh{{1, 2, 1, 1}};
  for (const auto& item : train::testing::model_cases()) {
    SCOPED_TRACE(item.name);
    const train::testing::Folder folder;
    auto config = item.config(folder);
    config.parallel = mesh_of(mesh);
    const auto rehearsal = rehearse(config, mesh, 0);
    EXPECT_GT(rehearsal.flops(), 0);
    EXPECT_GT(rehearsal.memory.state(), 0);
    EXPECT_GT(rehearsal.counts().at("dp_shard").at(Collective::kAllGather).calls, 0);
    if (!config.data.adaptive_patching || std::string(item.name).starts_with("sap")) continue;
    const auto machine = machine_profile("h200x8");
    EXPECT_FALSE(pipeline_points(config, plan_mesh(config, 2, machine), machine).empty());
  }
}

// What is offloaded is the state's shares, and nothing of it is counted for the GPU.
TEST(MeshPlanTest, OffloadedSharesAreMemoryOfTheHost) {
  const data::testing::TempDir folder;
  auto config = large_config(folder);
  const MeshShape mesh{{1, 16, 1, 1}};
  config.device.type = "cuda";
  config.trainer.ema.enabled = true;
  config.parallel = mesh_of(mesh);
  const auto kept = rehearse(config, mesh, 0);
  config.parallel.cpu_offload = true;
  const auto offloaded = rehearse(config, mesh, 0);
  const auto &before = kept.memory, &after = offloaded.memory;
  EXPECT_EQ(before.host_peak(), 0);
  EXPECT_EQ(after.host.gradients, before.gradients);
  EXPECT_EQ(after.host.optimizer, before.optimizer);
  EXPECT_EQ(after.host.average, before.average);
  EXPECT_EQ(after.gradients + after.optimizer + after.average, 0);
  EXPECT_EQ(after.parameters + after.host.parameters, before.parameters);
  // 16 bytes of a parameter and an average, shared out; on the GPU what no piece has is left.
  const auto share = static_cast<double>(kept.num_parameters) / 16;
  EXPECT_NEAR(static_cast<double>(after.host.state()), 20 * share, 0.02 * 20 * share);
  EXPECT_LT(static_cast<double>(after.state()),
            4 * 0.05 * static_cast<double>(kept.num_parameters));
  EXPECT_EQ(after.peak(), before.peak() - after.host.state());
  EXPECT_EQ(offloaded.counts(), kept.counts());
  config.device.type = "cpu";  // the host computes: nothing is moved
  EXPECT_EQ(rehearse(config, mesh, 0).memory.peak(), before.peak());
  // Without shares there is nothing to offload.
  config.device.type = "cuda";
  const MeshShape copies{{16, 1, 1, 1}};
  config.parallel.dp_replicate = 16;
  config.parallel.dp_shard = 1;
  EXPECT_EQ(rehearse(config, copies, 0).memory.host_peak(), 0);
}

// The update is the optimizer's one pass, with clipping, the average and the copies of weights: in
// place, so that it makes nothing of the size of the model, and takes what it moves.
TEST(MeshPlanTest, TheUpdateIsOnePass) {
  const data::testing::TempDir folder;
  auto config = large_config(folder);
  const MeshShape mesh{{8, 1, 1, 1}};
  config.parallel = mesh_of(mesh);
  config.data.global_batch_size = 8;
  config.trainer.micro_batch_size = 1;
  config.trainer.max_grad_norm = 1;
  config.trainer.ema.enabled = true;
  const auto rehearsal = rehearse(config, mesh, 0);
  int64_t made = 0, moved = 0;
  bool is_update = false;
  rehearsal.for_each([&](const Event& event) {
    if (is_update) {
      made += event.made_bytes;
      moved += event.update_bytes;
    }
    is_update |= event.kind == Event::Kind::kUpdate;
  });
  const int64_t parameters = 4 * rehearsal.num_parameters;
  EXPECT_LT(made, parameters / 100);
  // Reads of all five, writes of all but the gradients.
  EXPECT_NEAR(static_cast<double>(moved), 9.0 * static_cast<double>(parameters),
              0.01 * 9.0 * static_cast<double>(parameters));
  auto machine = machine_profile("h200x8");
  machine.memory_bandwidth = 1e-6;
  EXPECT_GE(step_time(rehearsal, machine, at::kFloat).memory,
            static_cast<double>(moved) / (1e9 * machine.memory_bandwidth));
}

// UNETR's convolutions: three products of each, but for the gradient of the images.
TEST(MeshPlanTest, FlopsOfConvolutionsAreCounted) {
  const data::testing::TempDir folder;
  auto config = train::testing::tiny_segmentation_config(folder);
  config.data.global_batch_size = 4;
  const MeshShape mesh{{1, 1, 1, 1}};
  const auto rehearsal = rehearse(config, mesh, 0);
  const auto summary = models::summarize(*models::build_model(config.model));
  double without = 0;
  for (const auto& layer : summary.layers) {
    const bool sees_images = layer.path == "encoder.patch_embed" ||
                             layer.path == "encoder1.layer.conv1" ||
                             layer.path == "encoder1.layer.conv3";
    if (sees_images) without += static_cast<double>(layer.product_flops);
  }
  EXPECT_GT(without, 0);
  const auto attention = config.model.get_if<models::UnetrConfig>()->encoder.vit;
  const double tokens = 8, width = static_cast<double>(attention.embed_dim);
  // Attention's backward computes one of its two products once more.
  const double recomputed = static_cast<double>(attention.depth) * 2 * tokens * tokens * width;
  EXPECT_NEAR(rehearsal.flops(),
              4 * (3 * static_cast<double>(summary.product_flops) - without + recomputed),
              1e-9 * rehearsal.flops());
}

// So it is where most of a model is in no block, as in the convolutions of UNETR.
TEST(MeshPlanTest, StateOfConvolutionsFallsWithTheRanks) {
  const data::testing::TempDir folder;
  auto config = train::testing::tiny_segmentation_config(folder);
  auto unetr = *config.model.get_if<models::UnetrConfig>();
  unetr.encoder.vit.embed_dim = 128;
  unetr.feature_size = 64;
  config.model = {unetr};
  config.data.global_batch_size = 16;
  const auto state_of = [&](const MeshShape& mesh) {
    config.parallel = mesh_of(mesh);
    return static_cast<double>(rehearse(config, mesh, 0).memory.state());
  };
  EXPECT_LT(state_of({{1, 16, 1, 1}}), state_of({{16, 1, 1, 1}}) / 12);
}

TEST(MeshPlanTest, CollectivesCostWhatTheirAlgorithmsMove) {
  MachineProfile machine{.name = "m",
                         .ranks_per_node = 4,
                         .intra_node_bandwidth = 100,
                         .inter_node_bandwidth = 10,
                         .intra_node_latency = 0,
                         .inter_node_latency = 0};
  const int64_t bytes = 1000000000;
  const auto seconds = [&](std::vector<int64_t> ranks, Collective collective) {
    return collective_seconds(machine, ranks, collective, bytes);
  };
  EXPECT_DOUBLE_EQ(seconds({0}, Collective::kAllReduce), 0);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2, 3}, Collective::kAllReduce), 1.5 / 100);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2, 3}, Collective::kAllGather), 0.75 / 100);
  EXPECT_DOUBLE_EQ(seconds({0, 4}, Collective::kReduceScatter), 0.5 / 10);
  // Each of four ranks of a node brings a port.
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2, 3, 4, 5, 6, 7}, Collective::kAllReduce), 1.75 / 40);
  // Half of an all_to_all leaves the node.
  EXPECT_DOUBLE_EQ(seconds({0, 1, 4, 5}, Collective::kAllToAll), 0.5 / 10);
  machine.intra_node_latency = 1000;
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2, 3}, Collective::kBarrier), 2e-3);
}

// With links that cost nothing a step is its work; with slow ones DDP waits for what backward did
// not hide, which is at most the exchange.
TEST(MeshPlanTest, WaitsAreWhatWorkDoesNotHide) {
  const data::testing::TempDir folder;
  auto config = large_config(folder);
  const MeshShape mesh{{16, 1, 1, 1}};
  config.parallel = mesh_of(mesh);
  const auto rehearsal = rehearse(config, mesh, 0);
  auto machine = machine_profile("h200x8");
  machine.intra_node_latency = machine.inter_node_latency = 0;
  machine.inter_node_bandwidth = machine.intra_node_bandwidth = 1e9;
  const auto fast = step_time(rehearsal, machine, at::kFloat);
  EXPECT_NEAR(fast.step, fast.products + fast.memory, 1e-6 * fast.step);
  machine.inter_node_bandwidth = machine.intra_node_bandwidth = 1e-3;
  const auto slow = step_time(rehearsal, machine, at::kFloat);
  EXPECT_GT(slow.exposed, 0);
  EXPECT_LE(slow.exposed, slow.busy_by_axis.at("dp_replicate") * (1 + 1e-9));
  EXPECT_DOUBLE_EQ(slow.products, fast.products);
  // Three products a forward product: recompute adds less than a fourth.
  config.parallel.recompute = "block";
  const double more = rehearse(config, mesh, 0).flops() / rehearsal.flops();
  EXPECT_GT(more, 1.25);
  EXPECT_LT(more, 1.34);
}

TEST(MeshPlanTest, SearchPutsTheFastestThatFitsFirst) {
  const data::testing::TempDir folder;
  const auto config = large_config(folder);
  auto machine = machine_profile("h200x8");
  const auto plans = search_meshes(config, 16, machine);
  ASSERT_GT(plans.size(), 4U);
  for (size_t i = 1; i < plans.size(); ++i) {
    EXPECT_LE(plans[i - 1].time.step, plans[i].time.step);
    EXPECT_EQ(plans[i].mesh.num_ranks(), 16);
  }
  // A memory that the fastest one does not fit into.
  machine.memory = (static_cast<double>(plans.front().memory.peak()) - 1) / (1 << 30);
  const auto tight = search_meshes(config, 16, machine);
  EXPECT_TRUE(tight.front().fits);
  EXPECT_LT(tight.front().memory.peak(), plans.front().memory.peak());
  bool fits = true;
  for (const auto& plan : tight) {
    EXPECT_TRUE(fits || !plan.fits);
    fits = plan.fits;
  }
  EXPECT_FALSE(fits);
}

TEST(MeshPlanTest, RefusesWhatDoesNotFit) {
  const data::testing::TempDir folder;
  const auto config = large_config(folder);
  const auto fault = [&](const MeshShape& mesh, int64_t ranks) {
    return message_of<Error>([&] { with_mesh(config, mesh_of(mesh), ranks); });
  };
  EXPECT_THAT(fault({{1, 1, 1, 3}}, 3), HasSubstr("parallel.tp: found 3, but num_heads is 8"));
  EXPECT_THAT(fault({{2, 1, 1, 2}}, 8), HasSubstr("is 4 processes, but there are 8"));
  EXPECT_THAT(fault({{8192, 1, 1, 1}}, 8192), HasSubstr("4096 for 8192 parts of the batch"));
  EXPECT_THAT(message_of<Error>([] { machine_profile("cray-1"); }), HasSubstr("h200x8, a100x8"));
  const auto file = folder.write("machine.yaml", std::string("{name: mine, memory: 0}"));
  EXPECT_THAT(message_of<Error>([&] { machine_profile(file); }), HasSubstr("memory"));
}

TEST(MeshPlanTest, PipelineFollowsTheBubble) {
  const data::testing::TempDir folder;
  const auto config = with_mesh(large_config(folder), mesh_of({{16, 1, 1, 1}}), 16);
  auto machine = machine_profile("h200x8");
  // Exchanges that take longer than all work, however few bytes there are: fewer of them pay at
  // once.
  machine.inter_node_latency = 1e5;
  auto points = pipeline_points(config, plan_mesh(config, 16, machine), machine);
  EXPECT_EQ(points.size(), 1U);
  EXPECT_TRUE(points.front().pays());
  // Without any cost of links a bubble never pays.
  machine.inter_node_bandwidth = machine.intra_node_bandwidth = 1e9;
  machine.intra_node_latency = machine.inter_node_latency = 0;
  points = pipeline_points(config, plan_mesh(config, 16, machine), machine);
  EXPECT_FALSE(points.back().pays());
  EXPECT_EQ(points.back().num_ranks, 4096);
}

// Between the two layers of an MLP stand 4 D features a token: those before the activation are kept
// for the backward pass, those after it are not.
TEST(LiveMemoryTest, AnMlpKeepsItsHiddenFeaturesOnce) {
  constexpr int64_t kTokens = 6, D = 8;
  for (const auto kind : {nn::MlpKind::kMlp, nn::MlpKind::kSwigluPacked}) {
    nn::Mlp mlp(nn::MlpOptions{.kind = kind, .dim = D, .hidden_dim = 4 * D}, at::kMeta);
    nn::assign_names(*mlp);
    const auto x = at::empty({kTokens, D}, at::kMeta);
    LiveMemory memory(c10::DeviceType::Meta);
    const auto y = mlp(x);
    EXPECT_EQ(memory.bytes(), 4 * kTokens * (4 * D + D));
  }
}

TEST(LiveMemoryTest, CountsTensorsOfItsDevice) {
  LiveMemory memory(c10::DeviceType::Meta);
  const auto options = at::TensorOptions().device(at::kMeta);
  const auto kept = at::empty({10}, options);
  { const auto gone = at::empty({100}, options); }
  const auto on_cpu = at::empty({1000});
  EXPECT_EQ(memory.bytes(), 40);
  EXPECT_EQ(memory.peak(), 440);
  EXPECT_EQ(memory.made(), 440);
  memory.reset_peak();
  EXPECT_EQ(memory.peak(), 40);
  EXPECT_THAT(message_of<Error>([] { LiveMemory again(c10::DeviceType::Meta); }),
              HasSubstr("already"));
}

}  // namespace
}  // namespace fovea::plan
