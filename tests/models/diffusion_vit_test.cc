// The diffusion ViT against the published code of UCF-VIT and DiT
// (tools/golden/make_diffusion_vit.py), and on its own.
#include "fovea/models/diffusion_vit.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <regex>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/patchify.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using support::Golden;
using support::NamedTensors;

DiffusionVitConfig diffusion_config_of(const nlohmann::json& values) {
  auto config = support::config_from_json<DiffusionVitConfig>(values);
  support::FieldsFromJson reader{values};
  EncoderConfig::visit(reader, config.encoder);
  return config;
}

// A name of the published code as ours.
std::string name_of_ours(std::string name) {
  const std::vector<std::pair<const char*, const char*>> kNames = {
      {"^(patch_embed|x_embedder)\\.", "encoder.patch_embed."},
      {"^pos_embed$", "encoder.pos_embed"},
      {"^norm\\.", "encoder.norm."},
      {"^timeEmbeddingMap\\.linear([12])\\.", "time_embed.fc$1."},
      {"^t_embedder\\.mlp\\.0\\.", "time_embed.fc1."},
      {"^t_embedder\\.mlp\\.2\\.", "time_embed.fc2."},
      {"^y_embedder\\.embedding_table\\.weight$", "class_embed"},
      {"^final_layer\\.linear\\.", "decoder_pred."},
      {"^final_layer\\.adaLN_modulation\\.1\\.", "decoder_modulation.proj."},
      {"adaLN_modulation\\.1\\.", "modulation.proj."}};
  for (const auto& [theirs, ours] : kNames)
    name = std::regex_replace(name, std::regex(theirs), ours);
  return name;
}

NamedTensors under_our_names(const NamedTensors& theirs, bool has_adaln) {
  NamedTensors ours;
  for (const auto& [name, tensor] : theirs) {
    const bool is_block = name.starts_with("blocks.") && !has_adaln;
    ours[is_block ? "encoder." + name : name_of_ours(name)] = tensor;
  }
  EXPECT_EQ(ours.size(), theirs.size());
  return ours;
}

NamedTensors parameters_by_name(const DiffusionVit& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) parameters[item.key()] = item.value();
  return parameters;
}

void load_all(DiffusionVit& model, const NamedTensors& weights) {
  const at::NoGradGuard no_grad;
  const auto parameters = parameters_by_name(model);
  ASSERT_EQ(parameters.size(), weights.size());
  for (const auto& [name, weight] : weights) {
    ASSERT_TRUE(parameters.contains(name)) << name;
    ASSERT_EQ(parameters.at(name).sizes(), weight.sizes()) << name;
    parameters.at(name).copy_(weight);
  }
}

class DiffusionVitParityTest : public testing::TestWithParam<const char*> {};

TEST_P(DiffusionVitParityTest, EqualsThePublishedCode) {
  const auto golden =
      support::load_golden(std::string("diffusion_vit_") + GetParam() + ".safetensors");
  const auto config = diffusion_config_of(golden.config);
  DiffusionVit model(config);
  model.to(at::kDouble);
  load_all(model, under_our_names(golden.group("weights"), config.has_adaln()));
  model.train(golden.config.value("train", false));
  std::optional<nn::StepScope> step;
  if (model.is_training()) step.emplace(3, 7, golden.at("rows"));
  const auto classes = config.num_classes > 0 ? golden.at("classes") : at::Tensor();
  NamedTensors outputs, gradients;
  outputs["output"] = model.denoise(golden.at("noisy"), golden.at("timesteps"), classes);
  outputs["loss"] = at::mse_loss(outputs["output"], golden.at("target"));
  outputs["loss"].backward();
  for (const auto& [name, parameter] : parameters_by_name(model))
    gradients[name] = parameter.grad();
  const NamedTensors expected = {{"output", golden.at("output")}, {"loss", golden.at("loss")}};
  EXPECT_PARITY(outputs, expected, at::kDouble);
  EXPECT_PARITY(gradients, under_our_names(golden.group("gradients"), config.has_adaln()),
                at::kDouble);
}

INSTANTIATE_TEST_SUITE_P(Goldens, DiffusionVitParityTest,
                         testing::Values("ucf_linear", "ucf_transformer", "ucf_volume", "ucf_train",
                                         "dit"));

// 8 x 8 images, or volumes 4 x 8 x 4 where `sides` is 3; register tokens take part in the blocks.
DiffusionVitConfig tiny_diffusion(const std::string& conditioning, bool linear_decoder,
                                  int64_t sides = 2) {
  DiffusionVitConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = sides == 2 ? std::vector<int64_t>{8} : std::vector<int64_t>{4, 8, 4};
  vit.patch_size = {4};
  vit.in_chans = 2;
  vit.embed_dim = 24;
  vit.depth = 2;
  vit.num_heads = 2;
  vit.reg_tokens = 1;
  config.conditioning = conditioning;
  config.num_classes = 3;
  config.time_drop_rate = 0;
  config.linear_decoder = linear_decoder;
  config.decoder_embed_dim = 12;
  config.decoder_depth = 2;
  config.decoder_num_heads = 3;
  return config;
}

at::Tensor noisy_of(const DiffusionVit& model, int64_t count) {
  auto shape = model.input_spec().img_size;
  shape.insert(shape.begin(), {count, model.input_spec().in_chans});
  return support::random(shape, at::kFloat, 9);
}

struct TinyCase {
  const char* conditioning;
  bool linear_decoder;
  int64_t sides;
};

class DiffusionVitFormTest : public testing::TestWithParam<TinyCase> {
 protected:
  DiffusionVitConfig config() const {
    return tiny_diffusion(GetParam().conditioning, GetParam().linear_decoder, GetParam().sides);
  }
};

TEST_P(DiffusionVitFormTest, EveryParameterGetsAGradientAndALayer) {
  DiffusionVit model(config());
  model.init_weights(1);
  {
    // The zero start hides what lies behind it.
    const at::NoGradGuard no_grad;
    for (auto& item : model.named_parameters()) {
      item.value().add_(support::random(item.value().sizes().vec(), at::kFloat, 3) * 0.1);
    }
  }
  const auto noisy = noisy_of(model, 2);
  const auto output =
      model.denoise(noisy, at::tensor({1, 900}, at::kLong), at::tensor({1, 3}, at::kLong));
  ASSERT_EQ(output.sizes(), noisy.sizes());
  (output * support::random(noisy.sizes().vec(), at::kFloat, 4)).sum().backward();
  std::vector<bool> has_layer(static_cast<size_t>(model.num_layers()), false);
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
    has_layer.at(static_cast<size_t>(model.layer_id(item.key()))) = true;
  }
  EXPECT_EQ(std::count(has_layer.begin(), has_layer.end(), true), model.num_layers());
}

TEST_P(DiffusionVitFormTest, SeesTimeAndClass) {
  DiffusionVit model(config());
  model.init_weights(1);
  {
    const at::NoGradGuard no_grad;
    for (auto& item : model.named_parameters()) {
      item.value().add_(support::random(item.value().sizes().vec(), at::kFloat, 3) * 0.1);
    }
  }
  model.eval();
  const auto noisy = noisy_of(model, 1);
  const auto at_time = [&](int64_t t, int64_t c) {
    return model.denoise(noisy, at::tensor({t}, at::kLong), at::tensor({c}, at::kLong));
  };
  EXPECT_FALSE(at_time(10, 0).equal(at_time(600, 0)));
  EXPECT_FALSE(at_time(10, 0).equal(at_time(10, 1)));
  support::expect_same_bits(at_time(10, 3), model.denoise(noisy, at::tensor({10}, at::kLong)),
                            "without a class");
}

INSTANTIATE_TEST_SUITE_P(Forms, DiffusionVitFormTest,
                         testing::Values(TinyCase{"adaln_zero", true, 2},
                                         TinyCase{"adaln_zero", false, 2},
                                         TinyCase{"adaln_zero", false, 3}, TinyCase{"add", true, 3},
                                         TinyCase{"add", false, 2}));

TEST(DiffusionVitTest, AFreshAdaLnZeroModelPredictsZeros) {
  for (const bool linear_decoder : {true, false}) {
    DiffusionVit model(tiny_diffusion("adaln_zero", linear_decoder));
    model.init_weights(5);
    const auto noisy = noisy_of(model, 2);
    const auto output = model.denoise(noisy, at::tensor({4, 700}, at::kLong));
    EXPECT_EQ(output.abs().max().item<double>(), 0);
  }
}

TEST(DiffusionVitTest, StartsAsAFunctionOfTheSeed) {
  const auto weights = [](uint64_t seed) {
    DiffusionVit model(tiny_diffusion("add", false));
    model.init_weights(seed);
    return parameters_by_name(model);
  };
  const auto first = weights(1), same = weights(1), other = weights(2);
  for (const auto& [name, weight] : first) support::expect_same_bits(same.at(name), weight, name);
  EXPECT_FALSE(first.at("time_embed.fc1.weight").equal(other.at("time_embed.fc1.weight")));
  EXPECT_TRUE(first.at("decoder_pos_embed").equal(other.at("decoder_pos_embed")));
}

std::string issues_of(const DiffusionVitConfig& config) {
  try {
    DiffusionVit model(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(DiffusionVitTest, RefusesWhatCannotWork) {
  const auto config = tiny_diffusion("adaln_zero", false);
  EXPECT_EQ(issues_of(config), "");
  auto heads = config;
  heads.decoder_num_heads = 5;
  EXPECT_NE(issues_of(heads).find("decoder_num_heads 5 does not divide"), std::string::npos);
  auto width = config;
  width.decoder_embed_dim = 9;
  EXPECT_NE(issues_of(width).find("multiple of 4"), std::string::npos);
  auto scaled = config;
  scaled.encoder.vit.init_values = 0.1;
  EXPECT_NE(issues_of(scaled).find("init_values"), std::string::npos);
  auto dynamic = config;
  dynamic.encoder.vit.dynamic_img_size = true;
  dynamic.encoder.vit.patch_drop_rate = 0.5;
  EXPECT_NE(issues_of(dynamic).find("dynamic_img_size"), std::string::npos);
  EXPECT_NE(issues_of(dynamic).find("patch_drop_rate"), std::string::npos);
  auto adaptive = config;
  adaptive.encoder.vit.patching = "packed";
  EXPECT_NE(issues_of(adaptive).find("set patching: grid, or adaptive"), std::string::npos);
  auto without = config;
  without.num_classes = 0;
  DiffusionVit model(without);
  EXPECT_THROW(
      model.denoise(noisy_of(model, 1), at::tensor({1}, at::kLong), at::tensor({0}, at::kLong)),
      Error);
}

struct OnPatches {
  DiffusionVitConfig grid, adaptive;
};

// A model of 8 x 8 images in 4 patches, and the same of 4 (or 6) adaptive patches.
OnPatches on_patches(const std::string& conditioning, int64_t length) {
  DiffusionVitConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = {8};
  vit.patch_size = {4};
  vit.in_chans = 1;
  vit.embed_dim = 24;
  vit.depth = 2;
  vit.num_heads = 2;
  vit.pos_embed = "learn";
  config.conditioning = conditioning;
  config.num_classes = 3;
  config.time_drop_rate = 0;
  config.linear_decoder = false;
  config.decoder_embed_dim = 16;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  auto adaptive = config;
  adaptive.encoder.vit.patching = "adaptive";
  adaptive.encoder.vit.fixed_length = length;
  return {config, adaptive};
}

// Tables of positions are longer where there is room for padding.
void copy_weights(DiffusionVit& from, DiffusionVit& to) {
  const at::NoGradGuard no_grad;
  const auto wanted = parameters_by_name(to);
  uint64_t seed = 1;
  for (auto& [name, weight] : parameters_by_name(from)) {
    weight.copy_(0.3 * support::random(weight.sizes().vec(), at::kDouble, seed++));
    auto target = wanted.at(name);
    if (name.ends_with("pos_embed")) {
      target.zero_();
      target.narrow(1, 0, weight.size(1)).copy_(weight);
    } else {
      target.copy_(weight.view_as(target));
    }
  }
}

// values: [B, N, S] of one channel.
PatchInput patches_of(const at::Tensor& values, int64_t length) {
  const auto missing = length - values.size(1);
  const auto tokens = at::constant_pad_nd(values, {0, 0, 0, missing}, 7);  // padding is not zero
  auto padding = at::zeros({values.size(0), 1, length}, at::kBool);
  padding.narrow(2, values.size(1), missing).fill_(true);
  return {.tokens = tokens.unsqueeze(1),
          .sizes = at::ones({values.size(0), 1, length}),
          .centers = at::ones({values.size(0), 1, length, 2}),
          .padding = padding};
}

// Where leaves are the cells of a grid it is the model on that grid, padding or not: output and
// every gradient.
TEST(DiffusionVitTest, OnAdaptivePatchesOfAGridIsThatOfTheGrid) {
  for (const auto* conditioning : {"adaln_zero", "add"}) {
    for (const int64_t length : {4, 6}) {
      SCOPED_TRACE(fmt::format("{}, {} patches", conditioning, length));
      const auto configs = on_patches(conditioning, length);
      DiffusionVit grid(configs.grid), adaptive(configs.adaptive);
      grid.to(at::kDouble);
      adaptive.to(at::kDouble);
      copy_weights(grid, adaptive);
      const auto images = support::random({3, 1, 8, 8}, at::kDouble, 5);
      const auto timesteps = at::tensor({0, 17, 999}, at::kLong);
      const auto classes = at::tensor({2, 3, 0}, at::kLong);
      const auto expected = nn::patchify(grid.denoise(images, timesteps, classes), {4, 4});
      const auto found =
          adaptive.denoise(patches_of(nn::patchify(images, {4, 4}), length), timesteps, classes)
              .squeeze(1)
              .narrow(1, 0, 4);  // [B, 4, S]
      support::expect_close(found, expected, at::kDouble, "prediction");
      const auto weights = support::random(expected.sizes().vec(), at::kDouble, 6);
      (expected * weights).sum().backward();
      (found * weights).sum().backward();
      const auto gradients = parameters_by_name(adaptive);
      for (const auto& [name, weight] : parameters_by_name(grid)) {
        auto gradient = gradients.at(name).grad();
        if (name.ends_with("pos_embed")) gradient = gradient.narrow(1, 0, weight.size(1));
        support::expect_close(gradient.reshape(weight.sizes()), weight.grad(), at::kDouble, name);
      }
    }
  }
}

}  // namespace
}  // namespace fovea::models
