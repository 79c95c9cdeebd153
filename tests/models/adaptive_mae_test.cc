// The masked autoencoder on adaptive patches. Its parity with UCF-VIT is in variables_test.cc.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/mae.h"
#include "fovea/nn/forward_context.h"
#include "tests/support/close.h"

namespace fovea::models {
namespace {

using ::testing::HasSubstr;

MaeConfig adaptive_mae_config(int64_t fixed_length = 9, const std::string& rest = "") {
  return parse_config<MaeConfig>(
      "mask_ratio: 0.5\ndecoder_embed_dim: 8\ndecoder_depth: 2\ndecoder_num_heads: 2\n"
      "decoder_pos_embed: size_and_center\n" +
          rest +
          "encoder: {img_size: 32, patch_size: 2, patching: adaptive, pos_embed: size_and_center, "
          "in_chans: 2, embed_dim: 16, depth: 2, num_heads: 2, fixed_length: " +
          std::to_string(fixed_length) + "}\n",
      "test");
}

std::unique_ptr<Mae> adaptive_mae(const MaeConfig& config) {
  auto model = std::make_unique<Mae>(config);
  model->init_weights(5);
  model->eval();
  return model;
}

// The second of three samples has 6 patches, the third 2.
PatchInput padded_patches() {
  PatchInput patches{.tokens = support::random({3, 2, 9, 4}, at::kFloat, 1),
                     .sizes = support::random({3, 1, 9}, at::kFloat, 2).abs() * 8,
                     .centers = support::random({3, 1, 9, 2}, at::kFloat, 3).abs() * 15,
                     .padding = at::zeros({3, 1, 9}, at::kBool)};
  patches.padding[1].slice(1, 6).fill_(true);
  patches.padding[2].slice(1, 2).fill_(true);
  return patches;
}

kernels::DropKey mask_key(const at::Tensor& rows) { return {philox_key(3, "mask"), 7, rows}; }

TEST(AdaptiveMaeTest, WithoutPaddingTheChoiceIsThatOfAGrid) {
  const auto config = adaptive_mae_config();
  const auto key = mask_key(at::arange(5));
  const auto seen = see_patches(config, key, at::zeros({5, 9}, at::kBool).logical_not());
  EXPECT_FALSE(seen.seen.defined());
  const auto sorted = std::get<0>(seen.ids.sort(1));
  support::expect_same_bits(sorted, keep_patches(config, key, 9), "ids");
}

TEST(AdaptiveMaeTest, SeesTheShareOfTheRealPatchesOfEachSample) {
  const auto config = adaptive_mae_config();
  const auto is_real = real_patches(padded_patches());
  const auto seen = see_patches(config, mask_key(at::arange(3)), is_real);
  ASSERT_EQ(seen.ids.size(1), 4);
  EXPECT_TRUE(at::equal(seen.seen.sum(1), at::tensor({4, 3, 1}, at::kLong)));
  const auto mask = patch_mask(seen, is_real);
  EXPECT_TRUE(at::equal(mask.sum(1), at::tensor({5.0, 3.0, 1.0}, at::kFloat)));
  EXPECT_EQ(mask.masked_select(is_real.logical_not()).sum().item<double>(), 0.0);
  // What is seen is no padding, and is not masked.
  EXPECT_TRUE(is_real.gather(1, seen.ids).masked_select(seen.seen).all().item<bool>());
  EXPECT_EQ(mask.gather(1, seen.ids).masked_select(seen.seen).sum().item<double>(), 0.0);
}

TEST(AdaptiveMaeTest, TheChoiceOfARowIsItsOwn) {
  const auto config = adaptive_mae_config();
  const auto is_real = real_patches(padded_patches());
  const auto whole = see_patches(config, mask_key(at::arange(3)), is_real);
  for (int64_t row = 0; row < 3; ++row) {
    const auto alone =
        see_patches(config, mask_key(at::arange(row, row + 1)), is_real.narrow(0, row, 1));
    const auto count = whole.seen[row].sum().item<int64_t>();
    support::expect_same_bits(alone.ids[0].slice(0, 0, count), whole.ids[row].slice(0, 0, count),
                              "ids");
  }
}

TEST(AdaptiveMaeTest, WhatIsMaskedOrPaddingDoesNotMatter) {
  auto model = adaptive_mae(adaptive_mae_config());
  auto patches = padded_patches();
  const auto is_real = real_patches(patches);
  const auto seen = see_patches(model->config(), mask_key(at::arange(3)), is_real);
  const auto expected = model->predict(patches, seen);
  EXPECT_EQ(expected.sizes(), at::IntArrayRef({3, 9, 8}));
  const auto hidden =
      patch_mask(seen, is_real).logical_or(is_real.logical_not()).unsqueeze(1).unsqueeze(-1);
  patches.tokens = patches.tokens + 3.0 * hidden.to(at::kFloat);
  const auto padding = patches.padding.to(at::kFloat);
  patches.sizes = patches.sizes + 5.0 * padding;
  patches.centers = patches.centers + 50.0 * padding.unsqueeze(-1);
  const auto real = is_real.unsqueeze(-1).to(at::kFloat);
  support::expect_same_bits(model->predict(patches, seen) * real, expected * real, "predictions");
  patches.tokens = patches.tokens + 0.5;
  EXPECT_FALSE(at::equal(model->predict(patches, seen) * real, expected * real));
}

// A sample with padding is the sample without it.
TEST(AdaptiveMaeTest, PaddingIsAsIfItWereNotThere) {
  auto padded = adaptive_mae(adaptive_mae_config(9));
  auto exact = adaptive_mae(adaptive_mae_config(6));
  const auto patches = padded_patches();
  const PatchInput cut{.tokens = patches.tokens.narrow(0, 1, 1).narrow(2, 0, 6),
                       .sizes = patches.sizes.narrow(0, 1, 1).narrow(2, 0, 6),
                       .centers = patches.centers.narrow(0, 1, 1).narrow(2, 0, 6),
                       .padding = patches.padding.narrow(0, 1, 1).narrow(2, 0, 6)};
  const PatchInput one{.tokens = patches.tokens.narrow(0, 1, 1),
                       .sizes = patches.sizes.narrow(0, 1, 1),
                       .centers = patches.centers.narrow(0, 1, 1),
                       .padding = patches.padding.narrow(0, 1, 1)};
  const auto seen = see_patches(padded->config(), mask_key(at::arange(1)), real_patches(one));
  const SeenPatches ids{.ids = seen.ids.narrow(1, 0, 3), .seen = {}};
  const auto found = padded->predict(one, seen).narrow(1, 0, 6);
  support::expect_close(found, exact->predict(cut, ids), at::kFloat, "predictions");
}

TEST(AdaptiveMaeTest, GradientsReachEveryParameterFromItsStart) {
  for (const std::string rest : {"", "linear_decoder: true\n"}) {
    auto model = adaptive_mae(adaptive_mae_config(9, rest));
    model->train();
    const nn::StepScope step(1, 1, at::arange(3));
    model->forward(padded_patches()).square().sum().backward();
    for (const auto& item : model->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0.0) << item.key();
    }
  }
}

std::string refusal_of_adaptive_mae(const std::string& yaml) {
  try {
    parse_config<MaeConfig>(yaml, "test");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(AdaptiveMaeTest, RefusesPositionsOfTheOtherKindOfPatches) {
  const std::string adaptive =
      "encoder: {patching: adaptive, pos_embed: size_and_center, fixed_length: 22}\n";
  EXPECT_THAT(refusal_of_adaptive_mae(adaptive), HasSubstr("use size_and_center or learn"));
  EXPECT_EQ(refusal_of_adaptive_mae(adaptive + "decoder_pos_embed: learn"), "no refusal");
  EXPECT_THAT(refusal_of_adaptive_mae("decoder_pos_embed: size_and_center"),
              HasSubstr("use sincos or learn"));
  EXPECT_THAT(refusal_of_adaptive_mae(adaptive + "decoder_pos_embed: learn\nmask_ratio: 0.99"),
              HasSubstr("leaves 0 to see"));
}

TEST(AdaptiveMaeTest, RefusesImages) {
  auto model = adaptive_mae(adaptive_mae_config());
  EXPECT_TRUE(model->takes_patches());
  EXPECT_THROW(model->forward(at::zeros({1, 2, 32, 32})), ConfigError);
}

}  // namespace
}  // namespace fovea::models
