// UNETR on adaptive patches, and UCF-VIT's UNETR (tools/golden/make_ucf_unetr.py) on either kind.
#include <ATen/ops/ones.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/model_config.h"
#include "fovea/models/unetr.h"
#include "fovea/models/weights.h"
#include "fovea/nn/patchify.h"
#include "tests/models/ucf_golden.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using support::Golden;
using support::NamedTensors;
using ::testing::HasSubstr;

Golden ucf_unetr_golden(const std::string& name) {
  return support::load_golden("ucf_unetr_" + name + ".safetensors");
}

class UcfUnetrParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(UcfUnetrParityTest, EqualsUcfVit) {
  const auto golden = ucf_unetr_golden(GetParam());
  const auto config = ucf::config<UnetrConfig>(golden);
  Unetr model(config);
  load_weights(model, ucf::tensors(golden.group("weights")), "golden");
  const auto run = ucf::run(model, golden);
  EXPECT_PARITY(run.outputs, ucf::expected_outputs(golden), at::kFloat);
  EXPECT_PARITY(run.gradients, ucf::expected_gradients(golden, config.encoder.vit.is_adaptive()),
                at::kFloat);
}

const std::vector<const char*> kUcfUnetrGoldens = {"2d",
                                                   "2d_no_skip",
                                                   "2d_patch_8",
                                                   "2d_linear",
                                                   "3d",
                                                   "3d_patch_4",
                                                   "3d_no_skip",
                                                   "3d_linear",
                                                   "2d_adaptive",
                                                   "2d_adaptive_resize",
                                                   "2d_adaptive_learn",
                                                   "3d_adaptive",
                                                   "3d_adaptive_resize",
                                                   "3d_adaptive_no_skip",
                                                   "2d_variables",
                                                   "3d_adaptive_variables",
                                                   "3d_adaptive_single"};

INSTANTIATE_TEST_SUITE_P(Goldens, UcfUnetrParityTest, ::testing::ValuesIn(kUcfUnetrGoldens),
                         [](const auto& info) { return "Case" + std::string(info.param); });

// The comparison has teeth: weights that fit but are wrong are reported.
TEST(UcfUnetrGoldensTest, ReportWeightsThatAreSwappedOrTransposed) {
  const auto golden = ucf_unetr_golden("3d_adaptive_resize");
  const auto is_reported = [&](const std::function<void(at::Tensor)>& spoil,
                               const std::string& name) {
    Unetr model(ucf::config<UnetrConfig>(golden));
    load_weights(model, ucf::tensors(golden.group("weights")), "golden");
    {
      const at::NoGradGuard no_grad;
      spoil(model.named_parameters()[name]);
    }
    const auto run = ucf::run(model, golden);
    return !support::compare(run.outputs, ucf::expected_outputs(golden), at::kFloat).is_equal();
  };
  const auto transpose = [](at::Tensor weight) { weight.copy_(weight.transpose(0, 1).clone()); };
  const auto swap = [](at::Tensor weight) {
    auto parts = weight.chunk(3);
    const auto query = parts[0].clone();
    parts[0].copy_(parts[1]);
    parts[1].copy_(query);
  };
  EXPECT_TRUE(is_reported(transpose, "encoder.blocks.2.attn.proj.weight"));
  EXPECT_TRUE(is_reported(transpose, "decoder3.conv_block.conv2.conv.weight"));
  EXPECT_TRUE(is_reported(swap, "encoder.blocks.1.attn.qkv.weight"));
  EXPECT_FALSE(is_reported([](const at::Tensor&) {}, "encoder.norm.weight"));
}

UnetrConfig parse_unetr(const std::string& yaml) { return parse_config<UnetrConfig>(yaml, "test"); }

constexpr const char* kAdaptiveFlat =
    "patching: adaptive, img_size: 16, patch_size: 4, in_chans: 2, embed_dim: 12, depth: 4, "
    "num_heads: 2";
constexpr const char* kAdaptiveSolid =
    "patching: adaptive, img_size: [8, 8, 12], patch_size: 4, in_chans: 2, embed_dim: 12, depth: "
    "4, "
    "num_heads: 2";

// Patches of a grid in another order, with their leaves: [B, C, sides] -> input of g patches.
PatchInput shuffled_grid(const at::Tensor& images, int64_t p) {
  const auto d = images.dim() - 2;
  const auto patches = nn::patchify(images, std::vector<int64_t>(static_cast<size_t>(d), p))
                           .unflatten(2, {-1, images.size(1)})
                           .permute({0, 3, 1, 2});  // [B, C, n, p^d]
  const auto length = patches.size(2);
  const auto order = at::randperm(length);
  auto boxes = at::zeros({images.size(0), 1, length, 2, d}, at::kLong);
  for (int64_t i = 0; i < length; ++i) {
    auto index = order[i].item<int64_t>();
    for (int64_t axis = d - 1; axis >= 0; --axis) {
      const auto cells = images.size(axis + 2) / p;
      boxes.select(2, i).select(2, 0).select(2, axis).fill_(index % cells * p);
      index /= cells;
    }
    boxes.select(2, i).select(2, 1).fill_(p);
  }
  return {.tokens = patches.index_select(2, order).contiguous(),
          .sizes = at::zeros({images.size(0), 1, length}) + static_cast<double>(p),
          .centers = at::zeros({images.size(0), 1, length, d}),
          .padding = at::zeros({images.size(0), 1, length}, at::kBool),
          .images = images,
          .boxes = boxes};
}

// With leaves as large as the cells it is UNETR on a grid, whatever the order of the patches.
void expect_equal_to_grid(const std::string& encoder, const std::string& rest, int64_t length) {
  SCOPED_TRACE(encoder + rest);
  const std::string keys = "num_classes: 3\nfeature_size: 4\n" + rest;
  auto adaptive_config = parse_unetr(keys + "encoder: {" + encoder + ", pos_embed: none, " +
                                     "fixed_length: " + std::to_string(length) + "}");
  auto grid_config = adaptive_config;
  grid_config.encoder.vit.patching = "grid";
  Unetr adaptive(adaptive_config), grid(grid_config);
  adaptive.init_weights(3);
  load_weights(grid, weights_of(adaptive), "adaptive");  // of the patches, in the grid's layout
  adaptive.to(at::kDouble);
  grid.to(at::kDouble);
  std::vector<int64_t> shape = {2, 2};
  for (const auto side : adaptive_config.encoder.vit.img_sides()) shape.push_back(side);
  const auto images = support::random(shape, at::kDouble, 1);
  const auto found = adaptive.forward(shuffled_grid(images, 4));
  const auto expected = grid.forward(images);
  (found * found).sum().backward();
  (expected * expected).sum().backward();
  NamedTensors outputs = {{"logits", found.detach()}}, wanted = {{"logits", expected.detach()}};
  const auto other = grid.named_parameters();
  for (const auto& item : adaptive.named_parameters()) {
    const auto theirs = other[item.key()].grad();
    outputs[item.key()] = item.value().grad();
    wanted[item.key()] =
        theirs.sizes() == item.value().sizes() ? theirs : theirs.movedim(1, -1).flatten(1);
  }
  EXPECT_PARITY(outputs, wanted, at::kDouble);
}

TEST(AdaptiveUnetrTest, OnLeavesOfAGridIsUnetrOnThatGrid) {
  expect_equal_to_grid(kAdaptiveFlat, "", 16);
  expect_equal_to_grid(kAdaptiveFlat, "upsample: resize\n", 16);
  expect_equal_to_grid(kAdaptiveFlat, "skip_connection: false\n", 16);
  expect_equal_to_grid(kAdaptiveFlat, "linear_decoder: true\n", 16);
  expect_equal_to_grid(kAdaptiveSolid, "", 12);
  expect_equal_to_grid(kAdaptiveSolid, "linear_decoder: true\n", 12);
}

Unetr adaptive_unetr(const std::string& rest = "", int64_t length = 9) {
  Unetr model(
      parse_unetr("num_classes: 3\nfeature_size: 4\n" + rest + "encoder: {" + kAdaptiveFlat +
                  ", pos_embed: size_and_center, fixed_length: " + std::to_string(length) + "}"));
  model.init_weights(1);
  model.eval();
  return model;
}

// Four quarters, the first in quarters again, and two patches of padding.
PatchInput quartered(int64_t batch = 2) {
  auto boxes = at::zeros({batch, 1, 9, 2, 2}, at::kLong);
  const int64_t leaves[7][3] = {{0, 0, 4}, {0, 4, 4}, {4, 0, 4}, {4, 4, 4},
                                {0, 8, 8}, {8, 0, 8}, {8, 8, 8}};
  auto padding = at::ones({batch, 1, 9}, at::kBool);
  for (int64_t i = 0; i < 7; ++i) {
    boxes.select(2, i).select(2, 0).select(2, 0).fill_(leaves[i][0]);
    boxes.select(2, i).select(2, 0).select(2, 1).fill_(leaves[i][1]);
    boxes.select(2, i).select(2, 1).fill_(leaves[i][2]);
    padding.select(2, i).fill_(false);
  }
  const auto sides = boxes.select(3, 1).to(at::kFloat);  // [B, 1, L, 2]
  return {.tokens = support::random({batch, 2, 9, 16}, at::kFloat, 1),
          .sizes = sides.select(3, 0).contiguous(),
          .centers = (boxes.select(3, 0) + sides / 2).flip(-1).contiguous(),
          .padding = padding,
          .images = support::random({batch, 2, 16, 16}, at::kFloat, 2),
          .boxes = boxes};
}

TEST(AdaptiveUnetrTest, GradientsReachEveryParameterFromItsStart) {
  for (const auto* rest :
       {"", "adaptive_map: sequence\n", "skip_connection: false\n", "linear_decoder: true\n"}) {
    auto model = adaptive_unetr(rest);
    const auto logits = model.forward(quartered());
    EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{2, 3, 16, 16}));
    logits.square().sum().backward();
    for (const auto& item : model.named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << rest << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0.0) << rest << item.key();
    }
  }
}

TEST(AdaptiveUnetrTest, PaddingDoesNotMatter) {
  for (const auto* rest : {"", "adaptive_map: sequence\n"}) {
    auto model = adaptive_unetr(rest);
    auto input = quartered();
    const auto expected = model.forward(input);
    input.tokens.narrow(2, 7, 2).fill_(50);
    input.centers.narrow(2, 7, 2).fill_(7);
    support::expect_same_bits(model.forward(input), expected, rest);
  }
}

// The image alone tells where a patch lies: in another order it is the same image.
TEST(AdaptiveUnetrTest, OrderMattersToTheSequenceOnly) {
  const auto reversed = [](PatchInput input) {
    for (auto* tensor : {&input.tokens, &input.sizes, &input.centers, &input.padding, &input.boxes})
      *tensor = tensor->flip(2);
    return input;
  };
  auto on_image = adaptive_unetr();
  support::expect_close(on_image.forward(reversed(quartered())), on_image.forward(quartered()),
                        at::kFloat, "image");
  auto in_order = adaptive_unetr("adaptive_map: sequence\n");
  const auto change = in_order.forward(reversed(quartered())) - in_order.forward(quartered());
  EXPECT_GT(change.abs().max().item<double>(), 1e-3);
}

TEST(AdaptiveUnetrTest, ASampleOfPaddingAloneHasFiniteLogits) {
  for (const auto* rest : {"", "adaptive_map: sequence\n"}) {
    auto model = adaptive_unetr(rest);
    auto input = quartered();
    input.padding[1].fill_(true);
    input.boxes[1].zero_();
    EXPECT_TRUE(model.forward(input).isfinite().all().item<bool>()) << rest;
  }
}

TEST(AdaptiveUnetrTest, ComputesInBfloat16) {
  auto model = adaptive_unetr();
  auto input = quartered();
  const auto expected = model.forward(input);
  input.tokens = input.tokens.to(at::kBFloat16);
  input.images = input.images.to(at::kBFloat16);
  const auto logits = model.forward(input);
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  const auto error = (logits.to(at::kFloat) - expected).square().mean().sqrt();
  EXPECT_LT(error.item<double>(), 0.1 * expected.square().mean().sqrt().item<double>());
}

std::string fault_of_unetr(const std::function<void()>& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(AdaptiveUnetrTest, SaysWhatDoesNotFit) {
  const auto parse = [](const std::string& keys) {
    return fault_of_unetr([&] { parse_unetr(keys); });
  };
  EXPECT_THAT(parse("adaptive_map: sequence\nencoder: {" + std::string(kAdaptiveSolid) +
                    ", pos_embed: learn, fixed_length: 100}"),
              ::testing::AllOf(HasSubstr("cube"), HasSubstr("64 or 125")));
  EXPECT_THAT(parse("adaptive_map: sequence\nencoder: {" + std::string(kAdaptiveFlat) +
                    ", pos_embed: learn, fixed_length: 720}"),
              ::testing::AllOf(HasSubstr("square"), HasSubstr("676 or 729")));
  EXPECT_THAT(parse("adaptive_map: sequence"), HasSubstr("patching: adaptive"));
  auto model = adaptive_unetr();
  const auto images = fault_of_unetr([&] { model.forward(at::zeros({1, 2, 16, 16})); });
  EXPECT_THAT(images, HasSubstr("data.adaptive_patching"));
  auto input = quartered();
  input.images = at::zeros({2, 2, 32, 32});
  EXPECT_THAT(fault_of_unetr([&] { model.forward(input); }), HasSubstr("data.tiling"));
  input = quartered();
  input.boxes = input.boxes.expand({-1, 2, -1, -1, -1});
  EXPECT_THAT(fault_of_unetr([&] { model.forward(input); }), HasSubstr("separate_channels"));
  Unetr grid(parse_unetr("encoder: {img_size: 16, patch_size: 4, embed_dim: 12, num_heads: 2}"));
  EXPECT_THAT(fault_of_unetr([&] { grid.forward(quartered()); }), HasSubstr("takes images"));
}

// A tree for each channel, of tokens that are laid in their order.
TEST(AdaptiveUnetrTest, TheSequenceTakesATreeForEachChannel) {
  Unetr model(parse_unetr("num_classes: 3\nfeature_size: 4\nadaptive_map: sequence\nencoder: {" +
                          std::string(kAdaptiveFlat) + ", pos_embed: learn, fixed_length: 9}"));
  model.init_weights(1);
  auto input = quartered();
  input.padding = input.padding.expand({-1, 2, -1});
  input.boxes = input.boxes.expand({-1, 2, -1, -1, -1});
  EXPECT_EQ(model.forward(input).sizes(), (std::vector<int64_t>{2, 3, 16, 16}));
}

TEST(AdaptiveUnetrTest, TakesAnySubsetOfVariables) {
  for (const std::string map : {"image", "sequence"}) {
    Unetr model(parse_unetr("num_classes: 3\nfeature_size: 4\nadaptive_map: " + map +
                            "\nencoder: {patching: adaptive, img_size: 16, patch_size: 4, "
                            "in_chans: 3, variables: [a, b, c], embed_dim: 12, depth: 4, "
                            "num_heads: 2, pos_embed: size_and_center, fixed_length: 9}"));
    model.init_weights(1);
    model.eval();
    auto input = quartered();
    const auto logits = model.forward({input, {"c", "a"}});
    input.tokens = input.tokens.flip(1);
    input.images = input.images.flip(1);
    support::expect_same_bits(model.forward({input, {"a", "c"}}), logits, map);
    EXPECT_FALSE(at::equal(model.forward({input, {"a", "b"}}), logits)) << map;
  }
}

}  // namespace
}  // namespace fovea::models
