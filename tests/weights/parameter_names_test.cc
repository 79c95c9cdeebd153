#include "fovea/weights/parameter_names.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/models/registry.h"
#include "fovea/weights/conversion.h"

namespace fovea::weights {
namespace {

using ::testing::Contains;

void expect_known(const models::ModelConfig& config, const std::string& of) {
  for (const auto& name : models::names_of_parameters(config))
    EXPECT_TRUE(is_parameter_name(name)) << of << ": " << name;
}

models::VitConfig small_vit() {
  models::VitConfig vit;
  vit.depth = 1;
  vit.embed_dim = 24;
  vit.num_heads = 2;
  vit.img_size = {32};
  return vit;
}

TEST(ParameterNamesTest, EveryPresetIsKnown) {
  for (const auto& name : models::list_models()) expect_known(models::named_config(name), name);
}

TEST(ParameterNamesTest, EveryModelIsKnown) {
  auto vit = small_vit();
  vit.variables = {"a", "b"};
  vit.in_chans = 2;
  expect_known({vit}, "variables");
  vit = small_vit();
  vit.patching = "adaptive";
  vit.pos_embed = "size_and_center";
  vit.patch_norm = true;
  expect_known({vit}, "adaptive");
  vit = small_vit();
  vit.pos_embed = "factorized";
  vit.scale_attn_norm = vit.scale_mlp_norm = vit.qk_norm = true;
  vit.representation_size = 8;
  expect_known({vit}, "norms");
  vit = small_vit();
  vit.distilled = true;
  expect_known({vit}, "distilled");
  expect_known({models::MaeConfig{}}, "mae");
  for (const bool is_linear : {false, true}) {
    for (const bool has_blocks : {false, true}) {
      models::UnetrConfig unetr;
      unetr.linear_decoder = is_linear;
      unetr.conv_block = has_blocks;
      expect_known({unetr}, "unetr");
    }
    for (const std::string conditioning : {"adaln_zero", "add"}) {
      models::DiffusionVitConfig diffusion;
      diffusion.linear_decoder = is_linear;
      diffusion.conditioning = conditioning;
      diffusion.num_classes = 3;
      expect_known({diffusion}, "diffusion");
    }
  }
  expect_known({models::SapConfig{}}, "sap");
  for (const std::string kind : {"transformer", "performer"}) {
    models::T2tVitConfig t2t;
    t2t.token_attention = kind;
    expect_known({t2t}, kind);
  }
}

// Of every table, those that pass names on among them.
TEST(ParameterNamesTest, UnknownNamesAreUnexpectedInEveryNaming) {
  for (const auto& naming : namings()) {
    const auto report = to_fovea(naming, {{"blocks.0.attn.rel_pos.weight", at::zeros({2, 2})},
                                          {"something.new", at::zeros({2})}})
                            .report;
    EXPECT_THAT(report.unexpected, Contains("something.new")) << naming.name;
    EXPECT_TRUE(report.same.empty()) << naming.name << " " << report.text();
    EXPECT_EQ(report.unexpected.size(), 2u) << naming.name << " " << report.text();
  }
}

}  // namespace
}  // namespace fovea::weights
