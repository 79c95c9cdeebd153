#include "fovea/nn/patch_embed.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "tests/nn/layers_common.h"
#include "tests/support/operations.h"
#include "tests/support/packed_weight.h"

namespace fovea::nn {
namespace {

struct Embedded {
  at::Tensor y, weight, bias;
};

Embedded embed(const PatchEmbedOptions& options, const at::Tensor& images) {
  PatchEmbed patch_embed(options, at::kCPU);
  randomize(*patch_embed, 1);
  const auto parameters = patch_embed->named_parameters();
  return {patch_embed(images), parameters["proj.weight"], parameters["proj.bias"]};
}

TEST(PatchEmbedTest, IsTheStridedConvolution) {
  const auto images = support::random({2, 3, 8, 18}, at::kFloat, 3);
  const auto [y, weight, bias] = embed({.patch_size = {4, 6}, .in_chans = 3, .dim = 7}, images);
  EXPECT_EQ(weight.sizes(), (at::IntArrayRef{7, 3, 4, 6}));
  const auto expected = at::conv2d(images, weight, bias, {4, 6}).flatten(2).transpose(1, 2);
  support::expect_close(y, expected, at::kFloat, "y");
}

TEST(PatchEmbedTest, IsTheStridedConvolutionOfVolumes) {
  const auto volumes = support::random({2, 2, 4, 6, 8}, at::kFloat, 3);
  const auto [y, weight, bias] = embed({.patch_size = {2, 3, 4}, .in_chans = 2, .dim = 5}, volumes);
  const auto expected = at::conv3d(volumes, weight, bias, {2, 3, 4}).flatten(2).transpose(1, 2);
  support::expect_close(y, expected, at::kFloat, "y");
}

TEST(PatchEmbedTest, TakesNonContiguousImages) {
  const auto images = support::random({2, 8, 8, 3}, at::kFloat, 3);
  const PatchEmbedOptions options{.patch_size = {4, 4}, .in_chans = 3, .dim = 5};
  support::expect_same_bits(embed(options, images.permute({0, 3, 1, 2})).y,
                            embed(options, images.permute({0, 3, 1, 2}).contiguous()).y, "y");
}

// What a loaded model keeps of its weights is that of the values they have.
TEST(PatchEmbedTest, WithCopiesOfItsWeightGivesTheBitsOfWithout) {
  const PatchEmbedOptions flat{.patch_size = {4, 5}, .in_chans = 3, .dim = 21};
  const PatchEmbedOptions deep{.patch_size = {2, 3, 4}, .in_chans = 2, .dim = 37};
  using Shape = std::vector<int64_t>;
  for (const auto& [options, shape] :
       {std::pair(flat, Shape{2, 3, 24, 30}), std::pair(deep, Shape{1, 2, 8, 12, 16})}) {
    PatchEmbed alone(options, at::kCPU), kept(options, at::kCPU);
    const auto copies = kernels::WeightCopies::of_model(kept->parameters());
    const at::NoGradGuard no_grad;
    const support::Operations ran;
    for (const uint64_t seed : {1, 2}) {  // and after they have changed
      randomize(*alone, seed);
      randomize(*kept, seed);
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        const auto images = support::random(shape, dtype, 3);
        support::expect_same_product(kept(images), alone(images), "y");
        support::expect_same_product(kept(images), alone(images), "y again");
      }
    }
    EXPECT_EQ(ran.of("fovea::weight_copy") + ran.of("fovea::weight_panels") +
                  ran.of("fovea::weight_rounded_strips"),
              4)
        << "in bfloat16 the weight's and the bias's are made once for each change";
  }
}

TEST(PatchEmbedTest, GradientsOfImagesAndWeightsAreTheConvolutions) {
  const auto images = support::random({2, 3, 8, 18}, at::kFloat, 3).set_requires_grad(true);
  const PatchEmbedOptions options{.patch_size = {4, 6}, .in_chans = 3, .dim = 7};
  PatchEmbed patch_embed(options, at::kCPU);
  randomize(*patch_embed, 1);
  const auto weight = patch_embed->named_parameters()["proj.weight"];
  const auto dy = support::random({2, 6, 7}, at::kFloat, 4);
  const auto run = [&](const at::Tensor& y) {
    for (const auto& leaf : {images, weight}) leaf.mutable_grad().reset();
    y.backward(dy);
    return std::pair(images.grad(), weight.grad());
  };
  const auto [dx, dw] = run(patch_embed(images));
  const auto bias = patch_embed->named_parameters()["proj.bias"];
  const auto [conv_dx, conv_dw] =
      run(at::conv2d(images, weight, bias, {4, 6}).flatten(2).transpose(1, 2));
  support::expect_close(dx, conv_dx, at::kFloat, "gradient of images");
  support::expect_close(dw, conv_dw, at::kFloat, "gradient of the weight");
}

TEST(PatchEmbedTest, CropsOrPadsOnlyWhenToldTo) {
  const auto images = support::random({1, 3, 9, 10}, at::kFloat, 3);
  PatchEmbedOptions options{.patch_size = {4, 4}, .in_chans = 3, .dim = 5};
  EXPECT_THROW(embed(options, images), Error);
  options.crop_to_patches = true;
  const auto cropped = images.narrow(2, 0, 8).narrow(3, 0, 8);
  support::expect_same_bits(embed(options, images).y, embed(options, cropped).y, "cropped");
  options = {.patch_size = {4, 4}, .in_chans = 3, .dim = 5, .pad_to_patches = true};
  const auto padded = at::constant_pad_nd(images, {0, 2, 0, 3});
  support::expect_same_bits(embed(options, images).y, embed(options, padded).y, "padded");
  EXPECT_EQ(PatchEmbed(options, at::kMeta)->grid_size({9, 10}), (std::vector<int64_t>{3, 3}));
}

TEST(PatchEmbedTest, RefusesOtherChannelsAndDims) {
  const PatchEmbedOptions options{.patch_size = {4, 4}, .in_chans = 3, .dim = 5};
  EXPECT_THROW(embed(options, support::random({1, 1, 8, 8}, at::kFloat, 3)), Error);
  EXPECT_THROW(embed(options, support::random({3, 8, 8}, at::kFloat, 3)), Error);
}

}  // namespace
}  // namespace fovea::nn
