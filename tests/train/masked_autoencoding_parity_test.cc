// MAE against Hugging Face's ViTMAEForPreTraining and, for volumes, against a plain reference: the
// mask, predictions, loss and every gradient of each golden, whose weights carry the names of the
// original checkpoints.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "fovea/models/weights.h"
#include "fovea/train/tasks/masked_autoencoding.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

using support::Golden;
using support::NamedTensors;

// "blocks.0.norm1.weight" of an original checkpoint -> its name in Fovea.
std::string name_in_fovea(const std::string& published) {
  const bool is_own = published.starts_with("decoder_") || published == "mask_token";
  return is_own ? published : "encoder." + published;
}

NamedTensors under_fovea_names(const NamedTensors& published) {
  NamedTensors renamed;
  for (const auto& [name, tensor] : published) renamed[name_in_fovea(name)] = tensor;
  return renamed;
}

struct MaeRun {
  NamedTensors outputs, gradients;
};

std::unique_ptr<models::Mae> mae_of(const Golden& golden) {
  auto model = std::make_unique<models::Mae>(
      support::config_from_json<models::MaeConfig>(golden.config.at("model")));
  const auto weights = golden.group("weights");
  const auto report =
      models::load_weights(*model, nn::NamedTensors(weights.begin(), weights.end()), "golden");
  EXPECT_EQ(report.loaded.size(), weights.size());
  return model;
}

MaeRun run_golden(models::Mae& model, const Golden& golden) {
  const auto task = support::config_from_json<MaskedAutoencodingConfig>(golden.config.at("task"));
  const auto dtype = golden.at("predictions").scalar_type();
  model.to(dtype);
  model.eval();
  const auto images = golden.at("input").to(dtype);
  const auto& ids_keep = golden.at("ids_keep");
  const auto mask = models::patch_mask(ids_keep, model.num_patches(images));
  const auto predictions = model.predict(images, {ids_keep});
  const auto parts = autoencoding_loss(images, predictions, {mask},
                                       model.config().encoder.vit.patch_sides(), task);
  const auto loss = parts.loss_sum / parts.weight;
  loss.backward();
  MaeRun result;
  result.outputs = {{"mask", mask}, {"predictions", predictions}, {"loss", loss}};
  for (const auto& item : model.named_parameters()) {
    if (item.value().grad().defined()) result.gradients[item.key()] = item.value().grad();
  }
  return result;
}

NamedTensors expected_outputs(const Golden& golden) {
  return {{"mask", golden.at("mask")},
          {"predictions", golden.at("predictions")},
          {"loss", golden.at("loss")}};
}

Golden mae_golden(const std::string& name) {
  return support::load_golden("mae_" + name + ".safetensors");
}

class MaeParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MaeParityTest, EqualsTheReference) {
  const auto golden = mae_golden(GetParam());
  const auto dtype = golden.at("predictions").scalar_type();
  const auto model = mae_of(golden);
  ASSERT_EQ(model->config().num_kept(golden.at("mask").size(1)), golden.at("ids_keep").size(1));
  const auto result = run_golden(*model, golden);
  EXPECT_PARITY(result.outputs, expected_outputs(golden), dtype);
  EXPECT_PARITY(result.gradients, under_fovea_names(golden.group("gradients")), dtype);
}

INSTANTIATE_TEST_SUITE_P(Golden, MaeParityTest,
                         ::testing::Values("hf_base", "hf_norm_pix", "hf_no_qkv_bias", "volume",
                                           "volume_all", "linear"),
                         [](const auto& info) { return std::string(info.param); });

// The fixed tables are Hugging Face's: a model that was not loaded has them too.
TEST(MaeParityTest, SinCosPositionsAreThoseOfTheReference) {
  for (const auto* name : {"hf_base", "hf_norm_pix", "volume"}) {
    const auto golden = mae_golden(name);
    models::Mae model(support::config_from_json<models::MaeConfig>(golden.config.at("model")));
    model.init_weights(1);
    const auto parameters = model.named_parameters();
    NamedTensors actual = {{"pos_embed", parameters["encoder.pos_embed"]}};
    NamedTensors expected = {{"pos_embed", golden.at("weights/pos_embed")}};
    if (std::string(name) != "volume") {
      actual["decoder_pos_embed"] = parameters["decoder_pos_embed"];
      expected["decoder_pos_embed"] = golden.at("weights/decoder_pos_embed");
    }
    EXPECT_PARITY(actual, expected, at::kFloat);
  }
}

// The comparison has teeth: weights that fit but are wrong are reported.
TEST(MaeParityTest, ReportsWrongWeights) {
  const auto golden = mae_golden("hf_base");
  const auto is_equal_with = [&](const char* name, auto change) {
    const auto model = mae_of(golden);
    {
      const at::NoGradGuard no_grad;
      auto weight = model->named_parameters()[name];
      weight.copy_(change(weight.clone()));
    }
    const auto result = run_golden(*model, golden);
    return support::compare(result.outputs, expected_outputs(golden), at::kDouble).is_equal();
  };
  const auto swap_query_and_key = [](const at::Tensor& qkv) {
    const auto parts = qkv.chunk(3);
    return at::cat({parts[1], parts[0], parts[2]});
  };
  const auto transpose = [](const at::Tensor& weight) { return weight.t(); };
  const auto leave = [](const at::Tensor& weight) { return weight; };
  EXPECT_TRUE(is_equal_with("decoder_blocks.0.attn.qkv.weight", leave));
  EXPECT_FALSE(is_equal_with("decoder_blocks.0.attn.qkv.weight", swap_query_and_key));
  EXPECT_FALSE(is_equal_with("encoder.blocks.1.attn.qkv.weight", swap_query_and_key));
  EXPECT_FALSE(is_equal_with("decoder_blocks.0.attn.proj.weight", transpose));
  EXPECT_FALSE(is_equal_with("encoder.blocks.0.attn.proj.weight", transpose));
}

}  // namespace
}  // namespace fovea::train
