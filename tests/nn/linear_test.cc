#include "fovea/nn/linear.h"

#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include "tests/nn/layers_common.h"

namespace fovea::nn {
namespace {

TEST(LinearTest, IsTheProductWithTheTransposedWeight) {
  Linear linear(5, 3, /*has_bias=*/true, at::kCPU);
  randomize(*linear, 1);
  const auto x = support::random({2, 4, 5}, at::kFloat, 9);
  const auto expected = at::matmul(x, linear->weight.t()) + linear->bias;
  support::expect_close(linear(x), expected, at::kFloat, "y");
}

TEST(LinearTest, NamesItsParametersAndHasNoBiasWithoutOne) {
  EXPECT_EQ(Linear(5, 3, true, at::kCPU)->named_parameters().keys(),
            (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(Linear(5, 3, false, at::kCPU)->named_parameters().keys(),
            (std::vector<std::string>{"weight"}));
}

TEST(LinearTest, AllocatesNothingOnMeta) {
  Linear linear(1 << 20, 1 << 20, true, at::kMeta);
  EXPECT_TRUE(linear->weight.is_meta());
  EXPECT_EQ(linear->weight.numel(), int64_t{1} << 40);
}

// The output transform sees the bare product: a row-split product is a sum that is still pending.
TEST(LinearTest, TransformsTheInputAndTheProductBeforeTheBias) {
  Linear linear(5, 3, true, at::kCPU);
  randomize(*linear, 1);
  const auto x = support::random({2, 5}, at::kFloat, 9);
  linear->input_transform = [](const at::Tensor& input) { return input * 2; };
  linear->output_transform = [](const at::Tensor& product) { return product * 10; };
  const auto expected = at::matmul(x, linear->weight.t()) * 20 + linear->bias;
  support::expect_close(linear(x), expected, at::kFloat, "y");
}

}  // namespace
}  // namespace fovea::nn
