// Convolutions and the blocks of UNETR by themselves; tests/models/unetr_parity_test.cc holds their
// numbers against MONAI.
#include "fovea/nn/unet_blocks.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "fovea/core/error.h"
#include "tests/support/close.h"

namespace fovea::nn {
namespace {

std::set<std::string> names_in(torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& item : module.named_parameters()) names.insert(item.key());
  return names;
}

template <class Block>
Block with_values(Block block) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (auto& parameter : block->parameters()) {
    parameter.copy_(support::random(parameter.sizes().vec(), at::kFloat, seed++));
  }
  return block;
}

TEST(ConvTest, KeepsTheSizeOrMultipliesIt) {
  auto conv = with_values(
      Conv(ConvOptions{.in_chans = 2, .out_chans = 3, .kernel_size = {3, 3}}, at::kCPU));
  EXPECT_EQ(conv(at::ones({1, 2, 5, 7})).sizes(), (at::IntArrayRef{1, 3, 5, 7}));
  auto up = with_values(Conv(ConvOptions{.in_chans = 2,
                                         .out_chans = 3,
                                         .kernel_size = {1, 2, 4},
                                         .is_transposed = true,
                                         .has_bias = true},
                             at::kCPU));
  EXPECT_EQ(up(at::ones({1, 2, 5, 7, 2})).sizes(), (at::IntArrayRef{1, 3, 5, 14, 8}));
  EXPECT_EQ(names_in(*up), (std::set<std::string>{"conv.weight", "conv.bias"}));
  EXPECT_EQ(up->parameters()[0].sizes(), (at::IntArrayRef{2, 3, 1, 2, 4}));
}

TEST(ConvTest, ComputesInTheDtypeOfItsInput) {
  auto conv = with_values(
      Conv(ConvOptions{.in_chans = 2, .out_chans = 3, .kernel_size = {3, 3}, .has_bias = true},
           at::kCPU));
  const auto x = support::random({1, 2, 5, 7}, at::kFloat, 9);
  const auto y = conv(x.to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  support::expect_close(y.to(at::kFloat), conv(x), at::kBFloat16, "bfloat16");
  y.sum().backward();
  EXPECT_EQ(conv->parameters()[0].grad().scalar_type(), at::kFloat);
}

// Blocks of memory of many sizes, all NaN, given back: what a kernel does not write shows.
void leave_nan_in_memory() {
  std::vector<at::Tensor> blocks;
  for (int64_t size = 64; size <= int64_t{1} << 20; size *= 2) {
    blocks.push_back(at::full({size}, std::numeric_limits<float>::quiet_NaN()));
  }
}

// See Note [Convolutions of small volumes].
TEST(ConvTest, GradientsOfSmallVolumesAreWhole) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const auto& sides : std::vector<std::vector<int64_t>>{
             {1, 1, 1}, {2, 2, 2}, {2, 4, 4}, {4, 2, 4}, {4, 4, 2}, {3, 3, 3}, {2, 2}, {1, 4}}) {
      const std::vector<int64_t> kernel(sides.size(), 3);
      auto conv = with_values(
          Conv(ConvOptions{.in_chans = 16, .out_chans = 16, .kernel_size = kernel}, at::kCPU));
      std::vector<int64_t> shape = {3, 16};
      shape.insert(shape.end(), sides.begin(), sides.end());
      const auto x = support::random(shape, at::kFloat, 9).to(dtype);
      const auto dy = support::random(shape, at::kFloat, 10).to(dtype);
      const auto gradient = [&](at::ScalarType type) {
        conv->zero_grad();
        const auto y = conv(x.to(type));
        leave_nan_in_memory();
        y.backward(dy.to(type));
        return conv->parameters()[0].grad().clone();
      };
      const auto expected = gradient(at::kFloat);
      const auto difference = (gradient(dtype) - expected).norm() / expected.norm();
      EXPECT_LT(difference.item<double>(), 0.01)
          << fmt::format("{} [{}]", c10::toString(dtype), fmt::join(sides, ", "));
    }
  }
}

TEST(ConvTest, RefusesOtherChannelsAndSides) {
  Conv conv(ConvOptions{.in_chans = 2, .out_chans = 3, .kernel_size = {3, 3}}, at::kCPU);
  EXPECT_THROW(conv(at::ones({1, 3, 5, 7})), Error);
  EXPECT_THROW(conv(at::ones({1, 2, 5, 7, 5})), Error);
}

TEST(UnetBlockTest, HasAThirdConvolutionWhereTheSumNeedsOne) {
  UnetBlockOptions options{.spatial_dims = 2, .in_chans = 2, .out_chans = 3};
  EXPECT_EQ(names_in(*UnetBlock(options, at::kCPU)),
            (std::set<std::string>{"conv1.conv.weight", "conv2.conv.weight", "conv3.conv.weight"}));
  options.is_residual = false;
  EXPECT_EQ(names_in(*UnetBlock(options, at::kCPU)).size(), 2U);
  options = {.spatial_dims = 2, .in_chans = 3, .out_chans = 3};
  EXPECT_EQ(names_in(*UnetBlock(options, at::kCPU)).size(), 2U);
}

TEST(UnetBlockTest, NormsEachSampleByItself) {
  auto block = with_values(
      UnetBlock(UnetBlockOptions{.spatial_dims = 3, .in_chans = 2, .out_chans = 3}, at::kCPU));
  const auto x = support::random({2, 2, 4, 5, 6}, at::kFloat, 9);
  support::expect_close(block(x).narrow(0, 1, 1), block(x.narrow(0, 1, 1)), at::kFloat, "sample");
}

TEST(UnetrPrUpBlockTest, UpsamplesByAllItsStrides) {
  auto block = with_values(
      UnetrPrUpBlock(UnetBlockOptions{.spatial_dims = 2, .in_chans = 2, .out_chans = 3},
                     std::vector<std::vector<int64_t>>{{1, 2}, {2, 2}, {4, 1}}, true, at::kCPU));
  EXPECT_EQ(block(at::ones({1, 2, 2, 3})).sizes(), (at::IntArrayRef{1, 3, 16, 12}));
  EXPECT_TRUE(names_in(*block).count("blocks.1.0.conv.weight"));
  EXPECT_TRUE(names_in(*block).count("blocks.1.1.conv2.conv.weight"));
}

}  // namespace
}  // namespace fovea::nn
