#include "fovea/parallel/recompute.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu_allocator.h"
#include "fovea/kernels/saved_activation.h"
#include "fovea/models/vit.h"
#include "fovea/nn/forward_context.h"

namespace fovea::parallel {
namespace {

models::VitConfig vit_with_drops() {
  models::VitConfig config;
  config.img_size = {32};
  config.patch_size = {4};
  config.num_classes = 5;
  config.embed_dim = 64;
  config.depth = 3;
  config.num_heads = 2;
  config.init_values = 0.1;
  config.qk_norm = true;
  config.proj_drop_rate = 0.2;
  config.attn_drop_rate = 0.1;
  config.drop_path_rate = 0.3;
  return config;
}

struct Pass {
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;
  std::vector<std::pair<std::string, at::Tensor>> intermediates;
  int64_t bytes_kept = 0;  // for backward
};

struct PassOptions {
  const char* recompute = "none";
  bool has_frozen_stem = false;
};

// One pass of a training step, by one thread: in so small a model they would wait for each other.
// Backward runs outside of the step's scope.
Pass run_pass(const PassOptions& options) {
  kernels::use_caching_cpu_allocator();
  at::set_num_threads(1);
  auto model = std::make_shared<models::Vit>(vit_with_drops());
  model->init_weights(3);
  recompute_in_backward(*model, options.recompute, 2);
  for (auto& item : model->named_parameters()) {
    const bool is_stem = !item.key().starts_with("blocks.") && !item.key().starts_with("head");
    if (options.has_frozen_stem && is_stem) item.value().set_requires_grad(false);
  }
  const auto images = at::arange(4 * 3 * 32 * 32, at::kFloat).sin().view({4, 3, 32, 32});
  Pass pass;
  const auto before = kernels::cpu_memory().in_use_bytes;
  {
    const nn::StepScope step(7, 5, at::arange(4) + 100);
    const nn::RecordScope recorder({"blocks.1", "blocks.1.mlp", "blocks.2.attn.qkv"});
    pass.loss = model->forward(images).square().sum();
    pass.intermediates = recorder.intermediates();
    for (auto& [name, tensor] : pass.intermediates) tensor = tensor.detach().clone();
  }
  pass.bytes_kept = kernels::cpu_memory().in_use_bytes - before;
  const nn::RecordScope recorder;  // what runs again is not recorded again
  pass.loss.backward();
  EXPECT_TRUE(recorder.intermediates().empty());
  for (const auto& item : model->named_parameters()) {
    if (item.value().grad().defined()) pass.gradients[item.key()] = item.value().grad().clone();
  }
  return pass;
}

void expect_same_bits(const Pass& actual, const Pass& expected) {
  EXPECT_TRUE(at::equal(actual.loss, expected.loss));
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_TRUE(at::equal(actual.gradients.at(name), gradient)) << name;
  }
  ASSERT_EQ(actual.intermediates.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(actual.intermediates[i].first, expected.intermediates[i].first);
    EXPECT_TRUE(at::equal(actual.intermediates[i].second, expected.intermediates[i].second));
  }
}

TEST(RecomputeTest, GivesTheSameBitsWithDrops) {
  const auto kept = run_pass({});
  for (const auto* what : {"block", "every_n", "attention", "mlp"}) {
    SCOPED_TRACE(what);
    expect_same_bits(run_pass({.recompute = what}), kept);
  }
}

// Where it is of whole blocks, whose input is kept as it was computed.
TEST(RecomputeTest, OfActivationsSavedInBfloat16GivesTheSameBits) {
  const auto full = run_pass({});
  kernels::choose_saved_activations("bfloat16");
  const auto kept = run_pass({});
  for (const auto* what : {"block", "every_n"}) {
    SCOPED_TRACE(what);
    expect_same_bits(run_pass({.recompute = what}), kept);
  }
  kernels::choose_saved_activations("full");
  EXPECT_TRUE(at::equal(kept.loss, full.loss));
  EXPECT_FALSE(at::equal(kept.gradients.at("blocks.0.mlp.fc1.weight"),
                         full.gradients.at("blocks.0.mlp.fc1.weight")));
  if (full.bytes_kept > 0) {
    EXPECT_LT(kept.bytes_kept, full.bytes_kept);
  }
}

// No input of the first block gets a gradient.
TEST(RecomputeTest, TrainsBlocksBehindAFrozenStem) {
  const auto kept = run_pass({.has_frozen_stem = true});
  EXPECT_TRUE(kept.gradients.contains("blocks.0.attn.qkv.weight"));
  EXPECT_FALSE(kept.gradients.contains("patch_embed.proj.weight"));
  expect_same_bits(run_pass({.recompute = "block", .has_frozen_stem = true}), kept);
}

TEST(RecomputeTest, KeepsLess) {
  run_pass({});  // what is made once
  const auto all = run_pass({}).bytes_kept;
  if (all == 0) GTEST_SKIP() << "the allocator does not count here";
  const auto block = run_pass({.recompute = "block"}).bytes_kept;
  const auto every_second = run_pass({.recompute = "every_n"}).bytes_kept;
  const auto attention = run_pass({.recompute = "attention"}).bytes_kept;
  const auto mlp = run_pass({.recompute = "mlp"}).bytes_kept;
  EXPECT_LT(block, all / 4);
  EXPECT_LT(block, attention);
  EXPECT_LT(block, mlp);
  EXPECT_LT(attention, all);
  EXPECT_LT(mlp, all);
  EXPECT_LT(block, every_second);
  EXPECT_LT(every_second, all);
}

TEST(RecomputeTest, FindsEveryFormOfBlock) {
  for (const std::string form : {"res_post_norm", "parallel_things", "parallel_scaling"}) {
    auto config = vit_with_drops();
    config.block_layer = form;
    models::Vit model(config);
    recompute_in_backward(model, "block", 1);
    if (form != "parallel_scaling") continue;
    EXPECT_THROW(recompute_in_backward(model, "attention", 1), ConfigError);  // one with the MLP
  }
}

TEST(RecomputeTest, RefusesWhatHasNoUnits) {
  auto config = vit_with_drops();
  config.depth = 1;
  models::Vit model(config);
  EXPECT_THROW(recompute_in_backward(model, "every_n", 2), ConfigError);
}

}  // namespace
}  // namespace fovea::parallel
