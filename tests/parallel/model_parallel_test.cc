// Layers and tokens shared out over ranks compute what one process computes, in float64.
#include "fovea/parallel/model_parallel.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <iostream>

#include "fovea/models/partitionings.h"
#include "fovea/models/registry.h"
#include "fovea/nn/forward_context.h"
#include "fovea/parallel/recompute.h"
#include "tests/parallel/run_ranks.h"
#include "tests/support/parity.h"
#include "tests/train/shared_vits.h"

namespace fovea::train {
namespace {

using parallel::Collective;
using parallel::DeviceMesh;
using parallel::MeshAxis;
using support::NamedTensors;

constexpr int64_t kBatch = 3;

struct Mode {
  const char* name;
  int64_t cp = 1, tp = 1;
  bool sequence_parallel = false;
  const char* recompute = "none";
  parallel::CpMethod cp_method = parallel::CpMethod::kAllToAll;
};

constexpr auto kRing = parallel::CpMethod::kRing;

at::Tensor wave(at::IntArrayRef shape, double frequency) {
  return at::arange(c10::multiply_integers(shape), at::kDouble).mul(frequency).sin().view(shape);
}

models::ModelPtr make_shared_model(const models::ModelConfig& config) {
  auto model = models::build_model(config);
  model->init_weights(3);
  model->to(at::kDouble);
  // Zero gates would hide what stands behind them.
  const at::NoGradGuard no_grad;
  for (auto& item : model->named_parameters()) {
    if (item.value().requires_grad() && item.value().abs().max().item<double>() == 0) {
      item.value().copy_(wave(item.value().sizes(), 0.3) * 0.1);
    }
  }
  return model;
}

// Output and gradients of a pass; frozen parameters have none.
NamedTensors pass_of(models::Model& model, const models::ModelConfig& config) {
  const auto spec = model.input_spec();
  std::vector<int64_t> shape = {kBatch, spec.in_chans};
  if (const auto* vit = config.get_if<models::VitConfig>(); vit && vit->has_variables()) {
    shape[1] = static_cast<int64_t>(vit->variables.size());
  }
  shape.insert(shape.end(), spec.img_size.begin(), spec.img_size.end());
  const nn::StepScope step(7, 5, at::arange(kBatch) + 10);
  const auto y = model.forward(wave(shape, 0.7));
  (y * wave(y.sizes(), 1.3)).sum().backward();
  NamedTensors result = {{"output", y.detach()}};
  for (const auto& item : model.named_parameters()) {
    if (item.value().grad().defined()) result[item.key()] = item.value().grad().clone();
  }
  return result;
}

std::vector<std::pair<std::string, at::Tensor>> trained_leaves(const models::Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> leaves;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) leaves.emplace_back(item.key(), item.value());
  }
  return leaves;
}

NamedTensors pass_of(const models::ModelConfig& config, const DeviceMesh& mesh, const Mode& mode) {
  const auto model = make_shared_model(config);
  const parallel::ModelParallel shared(*model, models::partitioning_of(config), mesh,
                                       mode.sequence_parallel, mode.cp_method);
  const auto* vit = config.get_if<models::VitConfig>();
  const bool is_one_unit = vit && vit->block_layer == "parallel_scaling";
  parallel::recompute_in_backward(
      *model, is_one_unit && mode.recompute != std::string("none") ? "block" : mode.recompute, 2);
  auto result = pass_of(*model, config);
  const auto leaves = trained_leaves(*model);
  shared.sum_gradients(leaves);
  for (const auto& [name, leaf] : leaves) {
    if (!leaf.grad().defined()) continue;
    result[name] = leaf.grad().clone();
    const auto cut = shared.cut_of(name);
    if (!cut) continue;
    const auto part = kernels::all_of_cut(leaf.sizes(), *cut);
    result[name] = kernels::spread_part(part, leaf.grad());
    shared.tp().all_reduce(result[name], "a cut");
  }
  return result;
}

// Of the modes that are a ring, or of the others: those have drops of probabilities as well.
void compare_modes(parallel::World& world, const std::vector<Mode>& modes, bool is_ring) {
  for (const auto& item :
       is_ring ? testing::vits_of_every_option(0) : testing::vits_of_every_option()) {
    SCOPED_TRACE(item.name);
    NamedTensors alone;
    if (world.is_first()) alone = pass_of(*make_shared_model(item.model), item.model);
    for (const auto& mode : modes) {
      if ((mode.cp_method == kRing) != is_ring) continue;
      SCOPED_TRACE(mode.name);
      const DeviceMesh mesh(world, {{1, 1, mode.cp, mode.tp}});
      const auto shared = pass_of(item.model, mesh, mode);
      if (!world.is_first()) continue;
      std::cout << item.name << ", " << mode.name << ":";
      EXPECT_PARITY(shared, alone, at::kDouble);
    }
  }
}

void compare_modes(parallel::World& world, const std::vector<Mode>& modes) {
  compare_modes(world, modes, /*is_ring=*/false);
  compare_modes(world, modes, /*is_ring=*/true);
}

TEST(ModelParallelTest, EveryOptionOnTwoRanks) {
  parallel::testing::run_ranks(2, [](parallel::World& world) {
    compare_modes(
        world,
        {{.name = "tp", .tp = 2},
         {.name = "tp and sp", .tp = 2, .sequence_parallel = true},
         {.name = "cp", .cp = 2},
         {.name = "ring", .cp = 2, .cp_method = kRing},
         {.name = "tp, sp, recompute", .tp = 2, .sequence_parallel = true, .recompute = "block"}});
  });
}

// Heads need not divide.
TEST(ModelParallelTest, RingOfThreeRanks) {
  parallel::testing::run_ranks(3, [](parallel::World& world) {
    compare_modes(world, {{.name = "ring", .cp = 3, .cp_method = kRing}});
  });
}

TEST(ModelParallelTest, EveryOptionOnFourRanks) {
  parallel::testing::run_ranks(4, [](parallel::World& world) {
    compare_modes(world, {{.name = "tp", .tp = 4},
                          {.name = "cp and tp", .cp = 2, .tp = 2},
                          {.name = "cp, tp, sp, recompute",
                           .cp = 2,
                           .tp = 2,
                           .sequence_parallel = true,
                           .recompute = "attention"},
                          {.name = "ring, tp, sp, recompute",
                           .cp = 2,
                           .tp = 2,
                           .sequence_parallel = true,
                           .recompute = "block",
                           .cp_method = kRing}});
  });
}

// Of a ViT of depth L with B samples of N tokens (S of a rank, with the padding), width D and C
// classes, in float64. tp: a sum of [B, N, D] behind attention and MLP in forward, and in front of
// them in backward; the head takes the features of a rank, sums the logits, and joins dx.
TEST(ModelParallelTest, CollectivesAreCounted) {
  parallel::testing::run_ranks(2, [](parallel::World& world) {
    const auto vit =
        testing::shared_vit([](models::VitConfig& changed) { changed.attn_drop_rate = 0; });
    const models::ModelConfig config{vit};
    const int64_t tokens = 5, padded = 6, depth = vit.depth, width = vit.embed_dim;
    const auto bytes_of = [&](int64_t count) { return 8 * kBatch * count * width; };
    const int64_t logits = 8 * kBatch * vit.num_classes, features = 8 * kBatch * width;
    const auto counts_of = [&](const Mode& mode) {
      const DeviceMesh mesh(world, {{1, 1, mode.cp, mode.tp}});
      auto& ranks = mesh.axis(mode.tp > 1 ? MeshAxis::kTp : MeshAxis::kCp);
      const auto model = make_shared_model(config);
      const parallel::ModelParallel shared(*model, models::partitioning_of(config), mesh,
                                           mode.sequence_parallel, mode.cp_method);
      ranks.reset_counts();
      pass_of(*model, config);
      shared.sum_gradients(trained_leaves(*model));
      return ranks.counts();
    };
    // Of the last block the class token alone, but for the gradient of what goes into attention.
    const int64_t read = (4 * depth - 3) * bytes_of(tokens) + 3 * bytes_of(1);
    const parallel::CollectiveCounts tp = {{Collective::kAllReduce, {4 * depth + 1, read + logits}},
                                           {Collective::kAllGather, {1, features}}};
    EXPECT_EQ(counts_of({.name = "tp", .tp = 2}), tp);
    // Norms and biases behind the sums see some tokens: norm1, norm2, proj.bias and fc2.bias.
    const int64_t partial = 8 * depth * 6 * width;
    const parallel::CollectiveCounts sp = {
        {Collective::kAllReduce, {2, logits + partial}},
        {Collective::kAllGather, {4 * depth + 3, (4 * depth + 2) * bytes_of(padded) + features}},
        {Collective::kReduceScatter, {4 * depth, 4 * depth * bytes_of(padded)}}};
    EXPECT_EQ(counts_of({.name = "sp", .tp = 2, .sequence_parallel = true}), sp);
    // An all_to_all of q, k and v, and one of the heads' outputs, and the same in backward; a rank
    // holds half of the tokens.
    const int64_t block = 3 * width * width + 3 * width + width * width + width +
                          2 * vit.embed_dim * 2 * width + 2 * width + width + 4 * width;
    const parallel::CollectiveCounts cp = {
        {Collective::kAllReduce, {1, 8 * depth * block}},
        {Collective::kAllGather, {2, 2 * bytes_of(padded)}},
        {Collective::kAllToAll, {4 * depth, 2 * depth * (3 + 1) * bytes_of(padded) / 2}}};
    EXPECT_EQ(counts_of({.name = "cp", .cp = 2}), cp);
    // Keys and values go on once in forward and once in backward, their gradients twice.
    auto ring = cp;
    ring.erase(Collective::kAllToAll);
    ring[Collective::kShift] = {4 * depth, 4 * depth * 2 * bytes_of(padded) / 2};
    EXPECT_EQ(counts_of({.name = "ring", .cp = 2, .cp_method = kRing}), ring);
  });
}

}  // namespace
}  // namespace fovea::train
