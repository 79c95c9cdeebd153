// T2T-ViT against its authors' code: every named intermediate, logits, loss and every gradient of
// each golden.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>

#include "fovea/models/t2t_vit.h"
#include "fovea/models/weights.h"
#include "fovea/nn/forward_context.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

struct T2tRun {
  support::NamedTensors intermediates, outputs, gradients;
};

support::Golden t2t_golden(const std::string& name) {
  return support::load_golden("t2t_vit_" + name + ".safetensors");
}

// With the weights of the golden's state_dict, by name.
std::unique_ptr<T2tVit> t2t_model(const support::Golden& golden) {
  auto model = std::make_unique<T2tVit>(support::config_from_json<T2tVitConfig>(golden.config));
  const auto weights = golden.group("weights");
  const auto report = load_weights(*model, {weights.begin(), weights.end()}, "golden");
  EXPECT_EQ(report.loaded.size(), weights.size());
  return model;
}

T2tRun run_t2t(T2tVit& model, const support::Golden& golden,
               const std::vector<std::string>& wanted = {}) {
  const auto dtype = golden.at("logits").scalar_type();
  model.to(dtype);
  model.train(golden.config.value("train", false));
  std::optional<nn::StepScope> step;
  if (model.is_training()) step.emplace(/*seed=*/3, /*step=*/7, golden.at("rows"));
  const nn::RecordScope recorder(wanted);
  T2tRun result;
  const auto logits = model.forward(golden.at("input").to(dtype));
  const auto loss =
      model.num_classes() == 0
          ? logits.square().mean()
          : at::cross_entropy_loss(logits, golden.at("labels"), {}, at::Reduction::Mean, -100, 0.1);
  loss.backward();
  result.outputs = {{"logits", logits}, {"loss", loss}};
  for (const auto& [name, tensor] : recorder.intermediates()) result.intermediates[name] = tensor;
  for (const auto& item : model.named_parameters()) {
    if (item.value().grad().defined()) result.gradients[item.key()] = item.value().grad();
  }
  return result;
}

support::NamedTensors t2t_outputs(const support::Golden& golden) {
  return {{"logits", golden.at("logits")}, {"loss", golden.at("loss")}};
}

class T2tVitParityTest : public testing::TestWithParam<const char*> {};

TEST_P(T2tVitParityTest, EqualsItsAuthors) {
  const auto golden = t2t_golden(GetParam());
  const auto dtype = golden.at("logits").scalar_type();
  const auto result = run_t2t(*t2t_model(golden), golden);
  EXPECT_PARITY(result.intermediates, golden.group("intermediates"), dtype);
  EXPECT_PARITY(result.outputs, t2t_outputs(golden), dtype);
  EXPECT_PARITY(result.gradients, golden.group("gradients"), dtype);
}

INSTANTIATE_TEST_SUITE_P(Golden, T2tVitParityTest,
                         testing::Values("performer", "performer_f64", "transformer",
                                         "transformer_f64", "biased", "dense_splits", "drops",
                                         "drops_transformer"),
                         [](const auto& info) { return std::string(info.param); });

// The comparison has teeth: weights that fit but are wrong are reported.
void expect_reported(const std::string& case_name,
                     const std::function<void(const nn::NamedTensors&)>& spoil) {
  const auto golden = t2t_golden(case_name);
  const auto model = t2t_model(golden);
  {
    const at::NoGradGuard no_grad;
    spoil(weights_of(*model));
  }
  const auto result = run_t2t(*model, golden);
  EXPECT_FALSE(support::compare(result.outputs, t2t_outputs(golden), at::kDouble).is_equal());
}

at::Tensor tensor_named(const nn::NamedTensors& tensors, const std::string& wanted) {
  for (const auto& [name, tensor] : tensors) {
    if (name == wanted) return tensor;
  }
  ADD_FAILURE() << wanted << " is missing";
  return {};
}

TEST(T2tVitParityTest, ReportsKeysAndQueriesSwapped) {
  const auto swap_first_two = [](const std::string& name) {
    return [name](const nn::NamedTensors& weights) {
      auto parts = tensor_named(weights, name).chunk(3);
      const auto first = parts[0].clone();
      parts[0].copy_(parts[1]);
      parts[1].copy_(first);
    };
  };
  expect_reported("performer_f64", swap_first_two("tokens_to_token.attention1.kqv.weight"));
  expect_reported("transformer_f64", swap_first_two("tokens_to_token.attention2.attn.qkv.weight"));
  expect_reported("performer_f64", swap_first_two("blocks.0.attn.qkv.weight"));
}

TEST(T2tVitParityTest, ReportsATransposedSquareWeight) {
  for (const std::string name :
       {"tokens_to_token.attention1.proj.weight", "tokens_to_token.attention2.mlp.0.weight",
        "blocks.0.attn.proj.weight"}) {
    expect_reported("performer_f64", [&](const nn::NamedTensors& weights) {
      const auto weight = tensor_named(weights, name);
      weight.copy_(weight.t().clone());
    });
  }
}

TEST(T2tVitParityTest, ASavedPositionTableIsResizedAsUpstreamDoes) {
  const auto golden = t2t_golden("tables");
  T2tVitConfig config;
  config.embed_dim = 24;
  config.num_heads = 3;
  config.depth = 1;
  config.img_size = {96};
  const auto saved = golden.at("saved");
  support::expect_close(T2tVit(config, at::kMeta).adapt_parameter("pos_embed", saved),
                        golden.at("larger"), at::kFloat, "larger");
  config.img_size = {32};
  support::expect_close(T2tVit(config, at::kMeta).adapt_parameter("pos_embed", saved),
                        golden.at("smaller"), at::kFloat, "smaller");
}

TEST(T2tVitParityTest, SizesHaveUpstreamsParameters) {
  const auto golden = t2t_golden("tables");
  const auto& counts = golden.config.at("counts");
  ASSERT_EQ(counts.size(), T2tVitConfig::preset_names().size());
  for (const auto& name : T2tVitConfig::preset_names()) {
    T2tVitConfig config;
    ASSERT_TRUE(config.apply_preset(name));
    int64_t all = 0, trained = 0;
    for (const auto& parameter : T2tVit(config, at::kMeta).parameters()) {
      all += parameter.numel();
      if (parameter.requires_grad()) trained += parameter.numel();
    }
    EXPECT_EQ(all, counts.at(name).at(0).get<int64_t>()) << name;
    EXPECT_EQ(trained, counts.at(name).at(1).get<int64_t>()) << name;
  }
}

}  // namespace
}  // namespace fovea::models
