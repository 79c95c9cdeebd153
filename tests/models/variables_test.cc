// Channels as variables: against UCF-VIT's own code (tools/golden/make_variables.py), and on their
// own.
#include "fovea/models/variables.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <thread>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/mae.h"
#include "fovea/models/registry.h"
#include "fovea/models/summary.h"
#include "fovea/models/vit.h"
#include "fovea/models/weights.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/patchify.h"
#include "fovea/weights/conversion.h"
#include "tests/models/model_section.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using support::Golden;
using support::NamedTensors;
using ::testing::HasSubstr;

using Channels = std::vector<std::string>;

// UCF-VIT's tensors under our names.
nn::NamedTensors from_ucf(const NamedTensors& theirs) {
  nn::NamedTensors tensors;
  for (const auto& [name, tensor] : theirs) tensors.emplace_back(name, tensor);
  const auto conversion = weights::to_fovea(weights::naming_named("ucf"), std::move(tensors));
  EXPECT_TRUE(conversion.report.unexpected.empty()) << conversion.report.text();
  EXPECT_TRUE(conversion.report.missing.empty()) << conversion.report.text();
  return conversion.tensors;
}

// Of a shared tokeniser UCF-VIT names one tensor again and again.
nn::NamedTensors without_copies(const nn::NamedTensors& tensors, bool is_shared) {
  nn::NamedTensors kept;
  for (const auto& item : tensors) {
    const bool is_copy = item.first.starts_with("patch_embed.token_embeds.") &&
                         !item.first.starts_with("patch_embed.token_embeds.0.");
    if (!is_shared || !is_copy) kept.push_back(item);
  }
  return kept;
}

void load_ucf(Model& model, const Golden& golden, const VitConfig& vit) {
  load_weights(model, without_copies(from_ucf(golden.group("weights")), vit.share_patch_embed),
               "golden");
  model.to(at::kDouble);
  model.eval();
}

// Every gradient, under our names without `encoder.`.
NamedTensors gradients_of(const Model& model) {
  NamedTensors gradients;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().grad().defined()) continue;
    const auto& name = item.key();
    gradients[name.starts_with("encoder.") ? name.substr(8) : name] = item.value().grad();
  }
  return gradients;
}

NamedTensors expected_gradients(const Golden& golden, const VitConfig& vit) {
  NamedTensors expected;
  for (const auto& [name, tensor] :
       without_copies(from_ucf(golden.group("gradients")), vit.share_patch_embed)) {
    expected[name] = tensor;
  }
  return expected;
}

PatchInput ucf_patches(const Golden& golden) {
  return {.tokens = golden.at("tokens"),
          .sizes = golden.at("sizes"),
          .centers = golden.at("centers"),
          .padding = at::zeros(golden.at("sizes").sizes(), at::kBool)};
}

Golden variables_golden(const std::string& name) {
  return support::load_golden("variables_" + name + ".safetensors");
}

// Outputs of a recorder under one name.
at::Tensor recorded_output(const nn::RecordScope& recorder, const std::string& name) {
  for (const auto& [found, tensor] : recorder.intermediates()) {
    if (found == name) return tensor;
  }
  ADD_FAILURE() << "nothing recorded as " << name;
  return {};
}

class VariablesParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(VariablesParityTest, EqualsUcfVit) {
  const auto golden = variables_golden(GetParam());
  const auto config = support::config_from_json<VitConfig>(golden.config.at("model"));
  Vit model(config);
  load_ucf(model, golden, config);
  const auto channels = golden.config.at("channels").get<Channels>();
  const nn::RecordScope recorder({"patch_embed"});
  const auto logits = config.is_adaptive() ? model.forward({ucf_patches(golden), channels})
                                           : model.forward({golden.at("images"), channels});
  const auto rows = logits.flatten(0, -2);  // of every token where nothing is pooled
  const auto labels = golden.at("labels").repeat_interleave(rows.size(0) / 2);
  const auto loss = at::cross_entropy_loss(rows, labels, {}, at::Reduction::Mean, -100, 0.1);
  loss.backward();
  const NamedTensors outputs = {
      {"embedded", recorded_output(recorder, "patch_embed")}, {"logits", logits}, {"loss", loss}};
  const NamedTensors expected = {{"embedded", golden.at("embedded")},
                                 {"logits", golden.at("logits")},
                                 {"loss", golden.at("loss")}};
  EXPECT_PARITY(outputs, expected, at::kDouble);
  EXPECT_PARITY(gradients_of(model), expected_gradients(golden, config), at::kDouble);
}

INSTANTIATE_TEST_SUITE_P(Goldens, VariablesParityTest,
                         ::testing::Values("grid", "grid_subset", "grid_shared", "grid_single",
                                           "volume", "volume_subset", "adaptive", "adaptive_single",
                                           "adaptive_volume"),
                         [](const auto& info) { return std::string(info.param); });

class VariablesMaeParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(VariablesMaeParityTest, EqualsUcfVit) {
  const auto golden = variables_golden(GetParam());
  const auto& values = golden.config.at("model");
  auto config = support::config_from_json<MaeConfig>(values);
  support::FieldsFromJson reader{values.at("encoder")};
  EncoderConfig::visit(reader, config.encoder);
  if (config.decoder_pos_embed == "sincos") config.decoder_pos_embed = "learn";
  const auto& vit = config.encoder.vit;
  Mae model(config);
  load_ucf(model, golden, vit);
  const auto channels = golden.config.at("channels").get<Channels>();
  const nn::RecordScope recorder({"encoder.patch_embed"});
  const auto ids = golden.at("ids_keep");
  const auto predictions = vit.is_adaptive()
                               ? model.predict({ucf_patches(golden), channels}, {ids})
                               : model.predict({golden.at("images"), channels}, {ids});
  const auto target = vit.is_adaptive() ? golden.at("tokens").permute({0, 2, 3, 1}).flatten(2)
                                        : nn::patchify(golden.at("images"), vit.patch_sides());
  const auto loss = at::mse_loss(predictions, target);
  loss.backward();
  const NamedTensors outputs = {{"embedded", recorded_output(recorder, "encoder.patch_embed")},
                                {"predictions", predictions},
                                {"loss", loss}};
  const NamedTensors expected = {{"embedded", golden.at("embedded")},
                                 {"predictions", golden.at("predictions")},
                                 {"loss", golden.at("loss")}};
  EXPECT_PARITY(outputs, expected, at::kDouble);
  EXPECT_PARITY(gradients_of(model), expected_gradients(golden, vit), at::kDouble);
}

INSTANTIATE_TEST_SUITE_P(Goldens, VariablesMaeParityTest,
                         ::testing::Values("mae", "mae_plain", "mae_volume", "mae_adaptive",
                                           "mae_adaptive_plain"),
                         [](const auto& info) { return std::string(info.param); });

// Random weights, those at zero and one included.
void perturb(Model& model) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 100;
  for (const auto& item : model.named_parameters()) {
    item.value().add_(support::random(item.value().sizes().vec(), at::kFloat, seed++), 0.1);
  }
}

constexpr const char* kSmall = "embed_dim: 24\ndepth: 1\nnum_heads: 2\nnum_classes: 3\n";
constexpr const char* kSmallGrid = "img_size: 8\npatch_size: 4\n";
constexpr const char* kSmallVolume = "img_size: [4, 8, 8]\npatch_size: [4, 4, 4]\n";
constexpr const char* kSmallAdaptive =
    "img_size: 32\npatch_size: 4\npatching: adaptive\nfixed_length: 7\npos_embed: "
    "size_and_center\n";

const std::vector<std::string> kFormNames = {"Grid", "Volume", "Adaptive"};

VitConfig vit_with(const std::string& rest) {
  return parse_config<VitConfig>(kSmall + rest, "test");
}

std::shared_ptr<Vit> fresh_vit(const std::string& rest) {
  auto model = std::make_shared<Vit>(vit_with(rest));
  model->init_weights(3);
  perturb(*model);
  model->eval();
  return model;
}

// A batch of `channels` channels for a model of this config.
struct Input {
  at::Tensor images;
  PatchInput patches;
};

Input random_input(const VitConfig& config, int64_t channels) {
  Input input;
  const auto sides = config.img_sides();
  std::vector<int64_t> shape = {2, channels};
  if (!config.is_adaptive()) {
    shape.insert(shape.end(), sides.begin(), sides.end());
    input.images = support::random(shape, at::kFloat, 1);
    return input;
  }
  const auto length = config.fixed_length;
  const auto dims = static_cast<int64_t>(sides.size());
  input.patches = {.tokens = support::random({2, channels, length, 16}, at::kFloat, 1),
                   .sizes = support::random({2, 1, length}, at::kFloat, 2).abs() * 8,
                   .centers = support::random({2, 1, length, dims}, at::kFloat, 3).abs() * 15,
                   .padding = at::zeros({2, 1, length}, at::kBool)};
  input.patches.padding.select(0, 1).slice(1, 5).fill_(true);
  return input;
}

at::Tensor forward_of(const Vit& model, const Input& input, const Channels& channels = {}) {
  return model.takes_patches() ? model.forward({input.patches, channels})
                               : model.forward({input.images, channels});
}

Input reordered(const Input& input, const std::vector<int64_t>& order) {
  auto changed = input;
  const auto index = at::arange(static_cast<int64_t>(order.size()), at::kLong);
  for (size_t i = 0; i < order.size(); ++i) index[static_cast<int64_t>(i)] = order[i];
  if (input.images.defined()) changed.images = input.images.index_select(1, index);
  if (input.patches.tokens.defined())
    changed.patches.tokens = input.patches.tokens.index_select(1, index);
  return changed;
}

class VariablesVitTest : public ::testing::TestWithParam<const char*> {};

TEST_P(VariablesVitTest, TheOrderOfChannelsDoesNotMatter) {
  auto model = fresh_vit(std::string(GetParam()) + "in_chans: 4\nvariables: [a, b, c, d]");
  const auto input = random_input(model->config(), 3);
  const auto expected = forward_of(*model, input, {"d", "a", "c"});
  support::expect_same_bits(forward_of(*model, reordered(input, {1, 2, 0}), {"a", "c", "d"}),
                            expected, "logits");
  // And it does matter which variable a channel is.
  EXPECT_FALSE(
      at::equal(forward_of(*model, reordered(input, {1, 2, 0}), {"a", "c", "b"}), expected));
}

TEST_P(VariablesVitTest, ASubsetIsWhatAModelOfTheSubsetAloneGives) {
  const std::string form = GetParam();
  auto model = fresh_vit(form + "in_chans: 4\nvariables: [a, b, c, d]");
  auto subset = fresh_vit(form + "in_chans: 2\nvariables: [b, d]");
  const auto whole = model->named_parameters();
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : subset->named_parameters()) {
      auto name = item.key();
      if (name.starts_with("patch_embed.token_embeds."))
        name[25] = name[25] == '0' ? '1' : '3';  // b and d
      const auto& from = whole[name];
      item.value().copy_(name == "patch_embed.var_embed"
                             ? at::cat({from.narrow(1, 1, 1), from.narrow(1, 3, 1)}, 1)
                             : from);
    }
  }
  const auto input = random_input(model->config(), 2);
  const auto logits = forward_of(*model, input, {"b", "d"});
  const auto expected = forward_of(*subset, input);
  support::expect_same_bits(logits, expected, "logits");
  logits.square().sum().backward();
  expected.square().sum().backward();
  const auto found = model->named_parameters();
  for (const auto& item : subset->named_parameters()) {
    if (item.key().starts_with("patch_embed.")) continue;
    support::expect_same_bits(found[item.key()].grad(), item.value().grad(), item.key());
  }
  for (const auto& item : model->named_parameters()) {
    const auto& name = item.key();
    const bool is_absent = name.starts_with("patch_embed.token_embeds.0.") ||
                           name.starts_with("patch_embed.token_embeds.2.");
    EXPECT_EQ(item.value().grad().defined(), !is_absent) << name;
  }
  const auto variables = found["patch_embed.var_embed"].grad();  // [1, 4, D]
  for (const int64_t variable : {0, 2})
    EXPECT_EQ(variables[0][variable].abs().max().item<double>(), 0.0);
  for (const int64_t variable : {1, 3})
    EXPECT_GT(variables[0][variable].abs().max().item<double>(), 0.0);
}

TEST_P(VariablesVitTest, UnnamedChannelsAreAllVariablesInOrder) {
  auto model = fresh_vit(std::string(GetParam()) + "in_chans: 2\nvariables: [a, b]");
  const auto input = random_input(model->config(), 2);
  const auto unnamed = forward_of(*model, input);
  support::expect_same_bits(forward_of(*model, input, {"a", "b"}), unnamed, "logits");
}

TEST_P(VariablesVitTest, ASharedTokenizerIsEqualOnesForEach) {
  const std::string form = GetParam();
  auto shared = fresh_vit(form + "in_chans: 3\nvariables: [a, b, c]\nshare_patch_embed: true");
  auto own = fresh_vit(form + "in_chans: 3\nvariables: [a, b, c]");
  const auto from = shared->named_parameters();
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : own->named_parameters()) {
      auto name = item.key();
      if (name.starts_with("patch_embed.token_embeds.")) name[25] = '0';
      item.value().copy_(from[name]);
    }
  }
  const auto input = random_input(own->config(), 2);
  const Channels channels = {"c", "a"};
  support::expect_close(forward_of(*shared, input, channels), forward_of(*own, input, channels),
                        at::kFloat, "logits");
}

TEST_P(VariablesVitTest, OneChannelAtATimeHasNoAggregation) {
  const std::string form = GetParam();
  auto model = fresh_vit(form + "in_chans: 1\nvariables: [a, b]\nsingle_channel: true");
  for (const auto& item : model->named_parameters())
    EXPECT_EQ(item.key().find("var_agg"), std::string::npos) << item.key();
  const auto input = random_input(model->config(), 1);
  const auto of_a = forward_of(*model, input, {"a"});
  const auto of_b = forward_of(*model, input, {"b"});
  EXPECT_FALSE(at::equal(of_a, of_b));
  EXPECT_THROW(forward_of(*model, input, {"a", "b"}), ConfigError);
}

INSTANTIATE_TEST_SUITE_P(Forms, VariablesVitTest,
                         ::testing::Values(kSmallGrid, kSmallVolume, kSmallAdaptive),
                         [](const auto& info) { return kFormNames.at(info.index); });

ModelPtr model_from(const std::string& keys) {
  auto model = build_model(parse_config<ModelSection>("model: {" + keys + "}", "test").model);
  model->init_weights(1);
  return model;
}

void expect_gradients_everywhere(const Model& model, const std::string& what) {
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    ASSERT_TRUE(item.value().grad().defined()) << what << " " << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0.0) << what << " " << item.key();
  }
}

// Of every model, from weights near its start: there the query is zero, and with it what it meets.
TEST(VariablesModelTest, GradientsReachEveryParameterOfEveryModel) {
  for (const std::string sides : {"[16, 16]", "[4, 8, 8]"}) {
    const bool is_volume = sides == "[4, 8, 8]";
    const auto images = support::random(
        is_volume ? std::vector<int64_t>{2, 2, 4, 8, 8} : std::vector<int64_t>{2, 2, 16, 16},
        at::kFloat, 4);
    const std::string encoder = "encoder: {img_size: " + sides +
                                ", patch_size: 4, in_chans: 2, variables: [a, b], embed_dim: 24, "
                                "depth: 4, num_heads: 2}";
    for (const std::string keys :
         {"name: mae, decoder_embed_dim: 12, decoder_depth: 1, decoder_num_heads: 2, mask_ratio: "
          "0.5, ",
          "name: unetr, num_classes: 3, feature_size: 4, ",
          "name: diffusion_vit, conditioning: add, linear_decoder: true, ",
          "name: diffusion_vit, conditioning: adaln_zero, linear_decoder: true, "}) {
      const auto model = model_from(keys + encoder);
      perturb(*model);
      const nn::StepScope step(1, 1, at::arange(2));
      model->forward({images, {"b", "a"}}).square().sum().backward();
      expect_gradients_everywhere(*model, keys + sides);
    }
  }
}

TEST(VariablesModelTest, GradientsReachEveryParameterOfModelsOfAdaptivePatches) {
  const std::string encoder = std::string("encoder: {img_size: 32, patch_size: 4, patching: ") +
                              "adaptive, fixed_length: 7, pos_embed: size_and_center, in_chans: 2, "
                              "variables: [a, b], embed_dim: 24, depth: 1, num_heads: 2}";
  for (const std::string keys :
       {"name: sap, num_classes: 3, decoder_dim: 8, ",
        "name: mae, decoder_embed_dim: 8, decoder_depth: 1, decoder_num_heads: 2, mask_ratio: 0.5, "
        "decoder_pos_embed: size_and_center, "}) {
    const auto model = model_from(keys + encoder);
    perturb(*model);
    const nn::StepScope step(1, 1, at::arange(2));
    const auto input = random_input(vit_with(std::string(kSmallAdaptive) + "in_chans: 2"), 2);
    const auto output = model->forward({input.patches, {"b", "a"}});
    output.square().sum().backward();
    expect_gradients_everywhere(*model, keys);
    // Predictions of a MAE are in the order of the channels of the batch, those of SAP have none.
    model->eval();
    const auto expected = model->forward({reordered(input, {1, 0}).patches, {"a", "b"}});
    const auto found = model->forward({input.patches, {"b", "a"}});
    const bool has_channels = keys.starts_with("name: mae");
    support::expect_same_bits(
        has_channels ? found.unflatten(-1, {-1, 2}).flip(-1).flatten(-2) : found, expected, keys);
  }
}

TEST(VariablesModelTest, DiffusionPredictsTheChannelsOfTheBatch) {
  const auto model = model_from(
      "name: diffusion_vit, conditioning: add, linear_decoder: true, encoder: {img_size: 16, "
      "patch_size: 4, in_chans: 3, variables: [a, b, c], embed_dim: 24, depth: 1, num_heads: 2}");
  model->eval();
  const auto images = support::random({2, 2, 16, 16}, at::kFloat, 4);
  const auto predicted = model->forward({images, {"c", "a"}});
  EXPECT_EQ(predicted.sizes(), images.sizes());
  support::expect_same_bits(model->forward({images.flip(1), {"a", "c"}}).flip(1), predicted,
                            "prediction");
}

// A decoder with a value for each variable gives those of the batch, in the batch's order.
TEST(VariablesModelTest, PredictionsAreOfTheChannelsOfTheBatch) {
  const std::string recipe =
      "decoder_embed_dim: 8\ndecoder_depth: 1\ndecoder_num_heads: 2\nencoder: {img_size: 16, "
      "patch_size: 4, in_chans: 3, variables: [a, b, c], embed_dim: 24, depth: 1, num_heads: 2}";
  Mae mae(parse_config<MaeConfig>(recipe, "test"));
  mae.init_weights(1);
  mae.eval();
  const auto images = support::random({2, 2, 16, 16}, at::kFloat, 4);
  const auto predicted = mae.forward({images, {"c", "a"}});
  EXPECT_EQ(predicted.sizes(), images.sizes());
  support::expect_same_bits(mae.forward({images.flip(1), {"a", "c"}}).flip(1), predicted,
                            "prediction");
}

TEST(VariablesModelTest, UnetrSeesZerosForAbsentVariables) {
  const std::string recipe =
      "name: unetr, num_classes: 3, feature_size: 4, encoder: {img_size: 16, patch_size: 4, "
      "in_chans: 3, variables: [a, b, c], embed_dim: 24, depth: 4, num_heads: 2}";
  const auto model = model_from(recipe);
  model->eval();
  const auto images = support::random({2, 2, 16, 16}, at::kFloat, 4);
  const auto expected = model->forward({images, {"c", "a"}});
  support::expect_same_bits(model->forward({images.flip(1), {"a", "c"}}), expected, "logits");
}

TEST(VariablesModelTest, StartsAsAMeanWithSineAndCosineOfEachVariable) {
  Vit model(vit_with(std::string(kSmallGrid) + "in_chans: 3\nvariables: [a, b, c]"));
  model.init_weights(7);
  const auto parameters = model.named_parameters();
  EXPECT_EQ(parameters["patch_embed.var_query"].abs().max().item<double>(), 0.0);
  const auto table = parameters["patch_embed.var_embed"];  // [1, 3, 24]: [sin | cos]
  EXPECT_EQ(table[0][0].slice(0, 0, 12).abs().max().item<double>(), 0.0);
  EXPECT_EQ(table[0][0].slice(0, 12).min().item<double>(), 1.0);
  EXPECT_NEAR(table[0][2][0].item<double>(), std::sin(2.0), 1e-6);
  EXPECT_NEAR(table[0][2][1].item<double>(), std::sin(2.0 / std::pow(10000.0, 1.0 / 12)), 1e-6);
  // A tokeniser starts as the patch embedding of one channel: within 1 / sqrt(16).
  const auto weight = parameters["patch_embed.token_embeds.1.proj.weight"];
  EXPECT_LE(weight.abs().max().item<double>(), 0.25);
  EXPECT_GT(weight.abs().max().item<double>(), 0.2);
  EXPECT_FALSE(at::equal(weight, parameters["patch_embed.token_embeds.0.proj.weight"]));
}

TEST(VariablesModelTest, EmbeddingsGetNoWeightDecayAndBelongToTheStem) {
  Vit model(vit_with(std::string(kSmallGrid) + "in_chans: 2\nvariables: [a, b]"));
  const auto names = model.no_weight_decay();
  for (const std::string name : {"patch_embed.var_embed", "patch_embed.var_query"}) {
    EXPECT_THAT(names, ::testing::Contains(name));
    EXPECT_EQ(model.layer_id(name), 0);
  }
  EXPECT_EQ(model.layer_id("patch_embed.var_agg.kv.weight"), 0);
}

TEST(VariablesModelTest, ThreadsGiveOneModelDifferentChannels) {
  Vit model(vit_with(std::string(kSmallGrid) + "in_chans: 3\nvariables: [a, b, c]"));
  model.init_weights(1);
  model.eval();
  const auto images = support::random({2, 2, 8, 8}, at::kFloat, 4);
  const auto logits_of = [&](const Channels& channels) {
    const at::NoGradGuard no_grad;
    return model.forward({images, channels});
  };
  const std::vector<Channels> named = {{"a", "b"}, {"c", "a"}};
  const std::vector<at::Tensor> expected = {logits_of(named[0]), logits_of(named[1])};
  ASSERT_FALSE(at::equal(expected[0], expected[1]));
  std::vector<std::thread> threads;
  std::atomic<int> num_equal = 0;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) num_equal += at::equal(logits_of(named[t]), expected[t]) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(num_equal, 40);
}

TEST(VariablesModelTest, CountsTheProductsOfEveryVariable) {
  const auto flops_of = [](const std::string& rest) {
    auto model = std::make_shared<Vit>(vit_with(kSmallGrid + ("in_chans: 3\n" + rest)));
    return summarize(*model).product_flops;
  };
  const std::string variables = "variables: [a, b, c]\n";
  const auto flops = flops_of(variables);
  EXPECT_EQ(flops_of(variables + "share_patch_embed: true"), flops);
  // Of 4 tokens: keys and values of 3 variables, the attention, the projection; one query.
  const int64_t kv = 2 * 12 * 24 * 48, attention = 2 * 12 * 48, proj = 2 * 4 * 24 * 24,
                query = 2 * 24 * 24;
  EXPECT_EQ(flops - flops_of(""), kv + attention + proj + query);
}

std::string faults_of_vit(const std::string& rest) {
  try {
    vit_with(rest);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(VariablesModelTest, RefusesConfigsThatDoNotFit) {
  EXPECT_THAT(faults_of_vit("in_chans: 3\nvariables: [a, b]"), HasSubstr("in_chans: 2"));
  EXPECT_THAT(faults_of_vit("in_chans: 2\nvariables: [a, b]\nsingle_channel: true"),
              HasSubstr("in_chans: 1"));
  EXPECT_THAT(faults_of_vit("in_chans: 2\nvariables: [a, a]"), HasSubstr("'a' stands there twice"));
  EXPECT_THAT(faults_of_vit("in_chans: 2\nvariables: [a, '']"), HasSubstr("is no name"));
  EXPECT_THAT(faults_of_vit("single_channel: true"), HasSubstr("without variables"));
  EXPECT_THAT(faults_of_vit("share_patch_embed: true"), HasSubstr("without variables"));
}

std::string fault_of_channels(const Channels& channels, const std::string& rest = "in_chans: 2") {
  Vit model(vit_with(std::string(kSmallGrid) + rest + "\nvariables: [red, green]"), at::kMeta);
  try {
    check_channels(model, channels, "data.train, set photos");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(VariablesModelTest, NamesWhatIsWrongWithTheChannelsOfData) {
  EXPECT_EQ(fault_of_channels({"green"}), "no fault");
  EXPECT_EQ(fault_of_channels({}), "no fault");
  EXPECT_THAT(fault_of_channels({"green", "infrared"}),
              AllOf(HasSubstr("data.train, set photos"), HasSubstr("[infrared]"),
                    HasSubstr("which has [red, green]")));
  EXPECT_THAT(fault_of_channels({"x", "y"}), HasSubstr("none of its channels"));
  EXPECT_THAT(fault_of_channels({"red", "red"}), HasSubstr("'red' stands twice"));
  const std::string single = "in_chans: 1\nsingle_channel: true";
  EXPECT_EQ(fault_of_channels({"red"}, single), "no fault");
  EXPECT_THAT(fault_of_channels({"red", "green"}, single), HasSubstr("single_channel: true"));
  EXPECT_THAT(fault_of_channels({}, single), HasSubstr("one at a time"));
}

TEST(VariablesModelTest, RefusesBatchesOfAnotherNumberOfChannels) {
  Vit model(vit_with(std::string(kSmallGrid) + "in_chans: 2\nvariables: [red, green]"));
  model.init_weights(1);
  model.eval();
  try {
    model.forward(at::zeros({1, 1, 8, 8}));
    ADD_FAILURE() << "took one channel without a name";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("1 channels, without names"), HasSubstr("[red, green]")));
  }
  EXPECT_NO_THROW(model.forward({at::zeros({1, 1, 8, 8}), {"green"}}));
  EXPECT_THROW(model.forward({at::zeros({1, 2, 8, 8}), {"green"}}), ConfigError);
  EXPECT_THROW(model.forward({at::zeros({1, 1, 8, 8}), {"blue"}}), ConfigError);
}

}  // namespace
}  // namespace fovea::models
