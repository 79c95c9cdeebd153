#include "fovea/models/t2t_vit.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/summary.h"
#include "fovea/nn/sinusoid.h"
#include "tests/support/close.h"
#include "tests/support/threads.h"

namespace fovea::models {
namespace {

T2tVitConfig tiny_t2t(const std::string& token_attention = "performer") {
  T2tVitConfig config;
  config.token_attention = token_attention;
  config.img_size = {28, 20};
  config.in_chans = 1;
  config.num_classes = 10;
  config.split_strides = {2, 2, 1};
  config.split_paddings = {3, 1, 1};
  config.token_dim = 8;
  config.embed_dim = 24;
  config.num_heads = 3;
  config.depth = 2;
  return config;
}

TEST(T2tVitTest, TakesImagesThatAreNotSquare) {
  T2tVit model(tiny_t2t());
  model.init_weights(1);
  model.eval();
  EXPECT_EQ(model.grid_size(), (std::vector<int64_t>{7, 5}));
  EXPECT_EQ(model.forward(support::random({3, 1, 28, 20}, at::kFloat, 1)).sizes(),
            (at::IntArrayRef{3, 10}));
  EXPECT_THROW(model.forward(support::random({3, 1, 28, 28}, at::kFloat, 1)), Error);
  EXPECT_THROW(model.forward(support::random({3, 3, 28, 20}, at::kFloat, 1)), Error);
}

TEST(T2tVitTest, StepZeroWeightsAreAFunctionOfTheSeed) {
  T2tVit first(tiny_t2t()), same(tiny_t2t()), other(tiny_t2t());
  first.init_weights(1);
  same.init_weights(1);
  other.init_weights(2);
  const auto of_same = same.named_parameters(), of_other = other.named_parameters();
  for (const auto& item : first.named_parameters()) {
    support::expect_same_bits(item.value(), of_same[item.key()], item.key());
  }
  const std::string name = "tokens_to_token.attention1.w";
  EXPECT_FALSE(of_same[name].equal(of_other[name]));
  support::expect_same_bits(of_same["pos_embed"], nn::sinusoid_table(1 + 7 * 5, 24), "pos_embed");
}

TEST(T2tVitTest, EveryTrainedParameterGetsAGradientAndALayer) {
  for (const auto* kind : {"performer", "transformer"}) {
    T2tVit model(tiny_t2t(kind));
    model.init_weights(1);
    model.eval();
    model.forward(support::random({3, 1, 28, 20}, at::kFloat, 1)).square().sum().backward();
    int64_t fixed = 0;
    for (const auto& item : model.named_parameters()) {
      EXPECT_LT(model.layer_id(item.key()), model.num_layers()) << item.key();
      if (!item.value().requires_grad()) {
        ++fixed;
        continue;
      }
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
    }
    EXPECT_EQ(fixed, kind == std::string("performer") ? 3 : 1);  // pos_embed and both w
    EXPECT_EQ(model.layer_id("tokens_to_token.project.weight"), 0);
    EXPECT_EQ(model.layer_id("blocks.1.mlp.fc1.weight"), 2);
    EXPECT_EQ(model.layer_id("head.weight"), 3);
  }
}

TEST(T2tVitTest, LearnsAFixedBatch) {
  auto config = tiny_t2t();
  config.token_drop_rate = 0.0;
  T2tVit model(config);
  model.init_weights(1);
  const auto images = support::random({10, 1, 28, 20}, at::kFloat, 1);
  const auto labels = at::arange(10);
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 60; ++step) {
    const auto loss = at::cross_entropy_loss(model.forward(images), labels);
    if (step == 0) first = loss.item<double>();
    last = loss.item<double>();
    model.zero_grad();
    loss.backward();
    const at::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) {
      // By sign: gradients of the soft splits are far smaller than those of the head.
      if (parameter.requires_grad()) parameter.sub_(parameter.grad().sign() * 3e-3);
    }
  }
  EXPECT_LT(last, 0.8 * first);
}

// With the performer; the transformer's attention over many tokens is libtorch's.
TEST(T2tVitTest, DoesNotDependOnTheNumberOfThreads) {
  auto config = tiny_t2t();
  config.img_size = {64};
  const auto images = support::random({3, 1, 64, 64}, at::kFloat, 1);
  support::expect_same_bits_for_any_threads([&] {
    T2tVit model(config);
    model.init_weights(1);
    model.eval();
    const auto logits = model.forward(images);
    logits.square().sum().backward();
    std::vector<at::Tensor> results = {logits.detach()};
    for (const auto& parameter : model.parameters()) {
      if (parameter.requires_grad()) results.push_back(parameter.grad());
    }
    return results;
  });
}

// In bfloat16 the performer's sums stay float32.
TEST(T2tVitTest, Bfloat16StaysCloseToFloat32) {
  T2tVit model(tiny_t2t());
  model.init_weights(1);
  model.eval();
  const auto images = support::random({3, 1, 28, 20}, at::kFloat, 1);
  support::expect_close(model.forward(images.to(at::kBFloat16)).to(at::kFloat),
                        model.forward(images), at::kBFloat16, "logits");
}

// The published figures: 4.8 G multiply-adds for T2T-ViT-14, 6.1 G for its t- variant, 8.5 G for
// T2T-ViT-19.
TEST(T2tVitTest, MultiplyAddsAreThePublishedOnes) {
  EXPECT_NEAR(summarize(*build_named("t2t_vit_14", at::kMeta)).gmacs(), 4.8, 0.05);
  EXPECT_NEAR(summarize(*build_named("t2t_vit_t_14", at::kMeta)).gmacs(), 6.1, 0.05);
  EXPECT_NEAR(summarize(*build_named("t2t_vit_19", at::kMeta)).gmacs(), 8.5, 0.05);
}

TEST(T2tVitConfigTest, ReportsWhatDoesNotFit) {
  const auto issues_of = [](const auto& change) {
    auto config = tiny_t2t();
    change(config);
    ConfigIssues issues;
    config.validate(issues);
    return issues.all();
  };
  EXPECT_TRUE(issues_of([](T2tVitConfig&) {}).empty());
  const auto expect_key = [&](const char* key, const auto& change) {
    const auto issues = issues_of(change);
    ASSERT_EQ(issues.size(), 1u) << key;
    EXPECT_EQ(issues[0].key, key);
    auto config = tiny_t2t();
    change(config);
    EXPECT_THROW(T2tVit(config, at::kMeta), ConfigError);
  };
  expect_key("num_heads", [](T2tVitConfig& config) { config.num_heads = 5; });
  expect_key("mlp_ratio", [](T2tVitConfig& config) { config.mlp_ratio = 0.01; });
  expect_key("split_strides", [](T2tVitConfig& config) { config.split_strides = {4, 2}; });
  expect_key("img_size", [](T2tVitConfig& config) { config.img_size = {8, 8, 8}; });
  expect_key("img_size", [](T2tVitConfig& config) {
    config.img_size = {4};
    config.split_paddings = {0, 0, 0};
  });
}

}  // namespace
}  // namespace fovea::models
