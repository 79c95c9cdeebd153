// The ViT against timm: every named intermediate, logits, loss and every gradient of each golden.
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <optional>
#include <set>

#include "fovea/models/vit.h"
#include "fovea/nn/forward_context.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using support::Golden;
using support::NamedTensors;

constexpr double kLabelSmoothing = 0.1;
constexpr uint64_t kSeed = 3;
constexpr int64_t kStep = 7;

struct Run {
  NamedTensors intermediates, outputs, gradients;
};

NamedTensors named_parameters(const Vit& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) parameters[item.key()] = item.value();
  return parameters;
}

void copy_weights(Vit& model, const NamedTensors& weights) {
  const at::NoGradGuard no_grad;
  const auto parameters = named_parameters(model);
  ASSERT_EQ(parameters.size(), weights.size());
  for (const auto& [name, weight] : weights) parameters.at(name).copy_(weight);
}

at::Tensor loss_of(const at::Tensor& output, const at::Tensor& labels, bool has_head) {
  if (!has_head) return output.square().mean();
  return at::cross_entropy_loss(output.dim() == 3 ? output.mean(1) : output, labels, {},
                                at::Reduction::Mean, -100, kLabelSmoothing);
}

Run run(Vit& model, const Golden& golden, const std::vector<std::string>& wanted) {
  const auto dtype = golden.at("logits").scalar_type();
  model.to(dtype);
  model.train(golden.config.value("train", false));
  std::optional<nn::StepScope> step;
  if (model.is_training()) step.emplace(kSeed, kStep, golden.at("rows"));
  const nn::RecordScope recorder(wanted);
  Run result;
  result.outputs["logits"] = model.forward(golden.at("input").to(dtype));
  result.outputs["loss"] =
      loss_of(result.outputs["logits"], golden.at("labels"), model.config().num_classes > 0);
  result.outputs["loss"].backward();
  for (const auto& [name, tensor] : recorder.intermediates()) result.intermediates[name] = tensor;
  for (const auto& [name, parameter] : named_parameters(model)) {
    if (parameter.grad().defined()) result.gradients[name] = parameter.grad();
  }
  return result;
}

std::unique_ptr<Vit> model_of(const Golden& golden) {
  auto model = std::make_unique<Vit>(support::config_from_json<VitConfig>(golden.config));
  copy_weights(*model, golden.group("weights"));
  return model;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& item : tensors) names.push_back(item.first);
  return names;
}

class VitParityTest : public testing::TestWithParam<const char*> {};

Golden golden_of(const char* name) {
  return support::load_golden(std::string("vit_") + name + ".safetensors");
}

bool is_probabilities(const std::string& name) { return name.find(".probs") != std::string::npos; }

// A recorder of everything sees timm's names and no others.
TEST_P(VitParityTest, EqualsTimm) {
  const auto golden = golden_of(GetParam());
  const auto dtype = golden.at("logits").scalar_type();
  const auto result = run(*model_of(golden), golden, {});
  auto intermediates = golden.group("intermediates");
  std::erase_if(intermediates, [](const auto& item) { return is_probabilities(item.first); });
  EXPECT_PARITY(result.intermediates, intermediates, dtype);
  const NamedTensors outputs = {{"logits", golden.at("logits")}, {"loss", golden.at("loss")}};
  EXPECT_PARITY(result.outputs, outputs, dtype);
  EXPECT_PARITY(result.gradients, golden.group("gradients"), dtype);
}

// Probabilities come only when asked for by name, and asking changes nothing else.
TEST_P(VitParityTest, RecordsProbabilitiesWhenAskedTo) {
  const auto golden = golden_of(GetParam());
  const auto dtype = golden.at("logits").scalar_type();
  auto expected = golden.group("intermediates");
  std::erase_if(expected, [](const auto& item) { return !is_probabilities(item.first); });
  const auto result = run(*model_of(golden), golden, names_of(expected));
  EXPECT_PARITY(result.intermediates, expected, dtype);
  EXPECT_PARITY(result.gradients, golden.group("gradients"), dtype);
}

const std::vector<const char*> kGoldens = {"base",
                                           "base_f64",
                                           "registers_average",
                                           "clip",
                                           "siglip",
                                           "dinov2_giant",
                                           "split_swiglu",
                                           "scaled_norms",
                                           "maximum",
                                           "map_with_prefix",
                                           "tokens",
                                           "average_and_maximum",
                                           "dynamic",
                                           "dynamic_padded",
                                           "dynamic_bilinear",
                                           "dynamic_zoom",
                                           "cropped",
                                           "sincos",
                                           "dynamic_dinov2",
                                           "volume",
                                           "volume_sincos",
                                           "volume_dynamic",
                                           "pre_logits",
                                           "distilled",
                                           "drops",
                                           "drops_gated",
                                           "drops_distilled",
                                           "res_post_norm",
                                           "parallel_things",
                                           "parallel_scaling",
                                           "parallel_scaling_biases",
                                           "diff",
                                           "diff_norms",
                                           "diff_parallel_scaling",
                                           "diff_parallel_things",
                                           "aimv2",
                                           "drops_res_post_norm",
                                           "drops_parallel_things",
                                           "drops_parallel_scaling",
                                           "drops_diff",
                                           "drops_diff_parallel_scaling"};

INSTANTIATE_TEST_SUITE_P(Golden, VitParityTest, testing::ValuesIn(kGoldens),
                         [](const auto& info) { return std::string(info.param); });

struct FieldNames {
  std::set<std::string> names;

  template <class T>
  void field(const char* name, T&, const char*, const FieldOptions& = {}) {
    names.insert(name);
  }
};

// An option that no golden sets has no parity test.
TEST(VitParityTest, TouchesEveryOption) {
  VitConfig config;
  FieldNames untouched;
  VitConfig::visit(untouched, config);
  EXPECT_GT(untouched.names.size(), 40U);
  for (const auto* name : kGoldens) {
    const auto golden = golden_of(name);
    for (const auto& item : golden.config.items()) untouched.names.erase(item.key());
  }
  // The table of presets, preprocessing, step-0 weights, adaptive patches, channels as variables,
  // the scale of logits and skipped drops are not timm's, or have tests of their own.
  EXPECT_EQ(untouched.names,
            (std::set<std::string>{"preset", "pretrained", "input", "weight_init", "fix_init",
                                   "patching", "fixed_length", "pos_in_pixels", "patch_norm",
                                   "variables", "single_channel", "share_patch_embed",
                                   "logits_scale", "drop_path_skip"}));
}

// The comparison has teeth: weights that fit but are wrong are reported.
TEST(VitParityTest, ReportsQueriesAndKeysSwapped) {
  const auto golden = support::load_golden("vit_base_f64.safetensors");
  const auto model = model_of(golden);
  {
    const at::NoGradGuard no_grad;
    auto qkv = named_parameters(*model).at("blocks.0.attn.qkv.weight").chunk(3);
    const auto query = qkv[0].clone();
    qkv[0].copy_(qkv[1]);
    qkv[1].copy_(query);
  }
  const auto result = run(*model, golden, {});
  const NamedTensors expected = {{"logits", golden.at("logits")}};
  EXPECT_FALSE(support::compare({{"logits", result.outputs.at("logits")}}, expected, at::kDouble)
                   .is_equal());
}

TEST(VitParityTest, ReportsATransposedSquareWeight) {
  const auto golden = support::load_golden("vit_base_f64.safetensors");
  const auto model = model_of(golden);
  {
    const at::NoGradGuard no_grad;
    const auto weight = named_parameters(*model).at("blocks.0.attn.proj.weight");
    weight.copy_(weight.t().clone());
  }
  const auto result = run(*model, golden, {});
  const NamedTensors expected = {{"logits", golden.at("logits")}};
  EXPECT_FALSE(support::compare({{"logits", result.outputs.at("logits")}}, expected, at::kDouble)
                   .is_equal());
}

}  // namespace
}  // namespace fovea::models
