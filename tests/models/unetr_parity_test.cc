// UNETR against MONAI: logits, loss and every gradient of each golden. Computed in float64 and held
// against values that are stored in float32.
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <set>

#include "fovea/models/unetr.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using support::Golden;
using support::NamedTensors;

Golden unetr_golden(const std::string& name) {
  return support::load_golden("unetr_" + name + ".safetensors");
}

// The encoder's keys are VitConfig's.
UnetrConfig unetr_config_of(const Golden& golden) {
  auto config = support::config_from_json<UnetrConfig>(golden.config);
  support::FieldsFromJson reader{golden.config.at("encoder")};
  VitConfig::visit(reader, config.encoder.vit);
  config.encoder.vit = EncoderConfig::headless(config.encoder.vit);
  return config;
}

// The one table from MONAI's names to ours: what a name holds, and what stands there instead.
const std::vector<std::pair<std::string, std::string>> kMonaiNames = {
    {"vit.patch_embedding.position_embeddings", "encoder.pos_embed"},
    {"vit.patch_embedding.patch_embeddings.1.", "encoder.patch_embed.proj."},  // perceptron
    {"vit.patch_embedding.patch_embeddings.", "encoder.patch_embed.proj."},
    {"vit.", "encoder."},
    {".attn.out_proj.", ".attn.proj."},
    {".mlp.linear1.", ".mlp.fc1."},
    {".mlp.linear2.", ".mlp.fc2."},
};

std::string our_name(std::string name) {
  for (const auto& [theirs, ours] : kMonaiNames) {
    const auto place = name.find(theirs);
    if (place != std::string::npos) name.replace(place, theirs.size(), ours);
  }
  return name;
}

// A "perceptron" patch projection [D, P * P * C] has the channel last: [D, C, P, P].
at::Tensor our_layout(const std::string& name, const at::Tensor& theirs,
                      const UnetrConfig& config) {
  if (name != "encoder.patch_embed.proj.weight" || theirs.dim() != 2) return theirs;
  std::vector<int64_t> shape = {theirs.size(0)};
  for (const auto side : config.encoder.vit.patch_sides()) shape.push_back(side);
  shape.push_back(config.encoder.vit.in_chans);
  return theirs.reshape(shape).movedim(-1, 1).contiguous();
}

NamedTensors with_our_names(const NamedTensors& theirs, const UnetrConfig& config) {
  NamedTensors ours;
  for (const auto& [name, tensor] : theirs) {
    const auto found = our_name(name);
    ours[found] = our_layout(found, tensor, config);
  }
  EXPECT_EQ(ours.size(), theirs.size());
  return ours;
}

NamedTensors named_parameters(const Unetr& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) parameters[item.key()] = item.value();
  return parameters;
}

std::unique_ptr<Unetr> unetr_of(const Golden& golden) {
  const auto config = unetr_config_of(golden);
  auto model = std::make_unique<Unetr>(config);
  const auto weights = with_our_names(golden.group("weights"), config);
  const auto parameters = named_parameters(*model);
  EXPECT_EQ(parameters.size(), weights.size());
  const at::NoGradGuard no_grad;
  for (const auto& [name, weight] : weights) {
    EXPECT_TRUE(parameters.count(name)) << name;
    EXPECT_EQ(parameters.at(name).sizes(), weight.sizes()) << name;
    parameters.at(name).copy_(weight);
  }
  return model;
}

struct UnetrRun {
  NamedTensors outputs, gradients;
};

UnetrRun run_unetr(Unetr& model, const Golden& golden, at::ScalarType dtype) {
  model.to(dtype);
  UnetrRun run;
  const auto logits = model.forward(golden.at("input").to(dtype));
  const auto loss = at::cross_entropy_loss(logits, golden.at("labels").to(at::kLong));
  loss.backward();
  run.outputs = {{"logits", logits.detach()}, {"loss", loss.detach()}};
  for (const auto& [name, parameter] : named_parameters(model)) {
    run.gradients[name] = parameter.grad();
  }
  return run;
}

NamedTensors expected_outputs(const Golden& golden) {
  return {{"logits", golden.at("logits")}, {"loss", golden.at("loss")}};
}

class UnetrParityTest : public testing::TestWithParam<const char*> {};

TEST_P(UnetrParityTest, EqualsMonai) {
  const auto golden = unetr_golden(GetParam());
  const auto run = run_unetr(*unetr_of(golden), golden, at::kDouble);
  EXPECT_PARITY(run.outputs, expected_outputs(golden), at::kFloat);
  const auto gradients = with_our_names(golden.group("gradients"), unetr_config_of(golden));
  EXPECT_PARITY(run.gradients, gradients, at::kFloat);
}

const std::vector<const char*> kUnetrGoldens = {
    "2d",        "2d_plain",  "2d_no_res_block", "2d_no_conv_block", "2d_perceptron",
    "3d",        "3d_plain",  "2d_patch_8",      "2d_patch_32",      "3d_patch_4",
    "2d_resize", "3d_resize", "2d_no_skip",      "3d_no_skip",       "3d_no_skip_resize",
    "2d_linear", "3d_linear"};

INSTANTIATE_TEST_SUITE_P(Golden, UnetrParityTest, testing::ValuesIn(kUnetrGoldens),
                         [](const auto& info) { return "Case" + std::string(info.param); });

struct UnetrFieldNames {
  std::set<std::string> names;

  template <class T>
  void field(const char* name, T&, const char*, const FieldOptions& = {}) {
    names.insert(name);
  }
};

// An option that no golden sets has no parity test.
TEST(UnetrGoldensTest, TouchEveryOption) {
  UnetrConfig config;
  UnetrFieldNames untouched;
  UnetrConfig::visit(untouched, config);
  EXPECT_EQ(untouched.names.size(), 9U);
  untouched.names.erase("adaptive_map");  // of goldens made with UCF-VIT
  for (const auto* name : kUnetrGoldens) {
    const auto golden = unetr_golden(name);
    for (const auto& item : golden.config.items()) untouched.names.erase(item.key());
  }
  EXPECT_TRUE(untouched.names.empty()) << *untouched.names.begin();
}

bool is_reported(const Golden& golden, Unetr& model) {
  const auto run = run_unetr(model, golden, at::kDouble);
  return !support::compare(run.outputs, expected_outputs(golden), at::kFloat).is_equal();
}

// The comparison has teeth: weights that fit but are wrong are reported.
TEST(UnetrGoldensTest, ReportQueriesAndKeysSwapped) {
  const auto golden = unetr_golden("2d");
  const auto model = unetr_of(golden);
  {
    const at::NoGradGuard no_grad;
    auto qkv = named_parameters(*model).at("encoder.blocks.5.attn.qkv.weight").chunk(3);
    const auto query = qkv[0].clone();
    qkv[0].copy_(qkv[1]);
    qkv[1].copy_(query);
  }
  EXPECT_TRUE(is_reported(golden, *model));
}

TEST(UnetrGoldensTest, ReportATransposedConvolution) {
  for (const auto* name :
       {"encoder.blocks.2.attn.proj.weight", "decoder3.conv_block.conv2.conv.weight",
        "encoder2.blocks.0.0.conv.weight"}) {
    const auto golden = unetr_golden("2d");
    const auto model = unetr_of(golden);
    {
      const at::NoGradGuard no_grad;
      const auto weight = named_parameters(*model).at(name);
      weight.copy_(weight.transpose(0, 1).clone());
    }
    EXPECT_TRUE(is_reported(golden, *model)) << name;
  }
}

}  // namespace
}  // namespace fovea::models
