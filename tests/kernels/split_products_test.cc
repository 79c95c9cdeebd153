#include "fovea/kernels/linear/split_products.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/linear.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/product_rows.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using kernels::FactorPlace;
using support::random;
using Inputs = std::vector<at::Tensor>;

// While alive, products of float32 are computed so.
struct ProductsAs {
  explicit ProductsAs(const std::string& name) { kernels::choose_float32_products(name); }
  ~ProductsAs() { kernels::choose_float32_products("float32"); }
};

// The three parts of x [N], largest first: [3, N] float64. They lie [l h m ...] in depth.
at::Tensor parts_of(const at::Tensor& x) {
  const ProductsAs six("bfloat16x6");
  const auto found =
      kernels::split_factor(x.unsqueeze(0), FactorPlace::kFirst, 1).view({6, -1}).to(at::kDouble);
  const auto numbers = found.nan_to_num();
  EXPECT_TRUE(at::equal(numbers[4], numbers[5]) && at::equal(numbers[1], numbers[4]));
  EXPECT_TRUE(at::equal(numbers[2], numbers[3]));
  return at::cat({found.narrow(0, 1, 2), found.narrow(0, 0, 1)});
}

TEST(SplitProductsTest, PartsSumUpToTheValueToTheBit) {
  const auto largest = std::numeric_limits<float>::max();
  const auto magnitudes = at::pow(2.0, at::arange(-80, 128, at::kFloat)).unsqueeze(1);
  auto x = (at::fmod(random({208, 300}, at::kFloat, 1), 0.9) * magnitudes).view(-1);
  x = at::cat({x, at::tensor({0.0f, -0.0f, 1.0f, -largest, largest, std::nextafter(1.0f, 2.0f)})});
  const auto parts = parts_of(x);
  EXPECT_TRUE(at::isfinite(parts).all().item<bool>());
  EXPECT_TRUE(at::equal(parts.sum(0), x.to(at::kDouble)));
  // Each is at most half a unit in the last place of the one before, and what would have been
  // rounded to infinity a whole one.
  EXPECT_TRUE((parts[1].abs() <= parts[0].abs() / 128).all().item<bool>());
  EXPECT_TRUE((parts[2].abs() <= parts[1].abs() / 256).all().item<bool>());
}

TEST(SplitProductsTest, WhatIsNotFiniteHasNoOtherParts) {
  const auto infinity = std::numeric_limits<float>::infinity();
  auto x = at::tensor({infinity, -infinity, std::nanf("")});
  x.view(at::kInt)[2] = 0x7F800001;  // a NaN whose upper half alone is an infinity
  const auto parts = parts_of(x);
  EXPECT_EQ(parts[0][0].item<double>(), infinity);
  EXPECT_EQ(parts[0][1].item<double>(), -infinity);
  EXPECT_TRUE(std::isnan(parts[0][2].item<double>()));
  EXPECT_EQ(parts.narrow(0, 1, 2).abs().sum().item<double>(), 0);
}

TEST(SplitProductsTest, FactorsAreSplitAlongTheirDepthInAnyLayout) {
  const ProductsAs three("bfloat16x3");
  const auto x = random({7, 530}, at::kFloat, 1);
  const auto along = kernels::split_factor(x, FactorPlace::kFirst, 1);
  EXPECT_EQ(along.sizes(), at::IntArrayRef({7, 1590}));
  const auto parts = along.view({7, 3, 530});
  EXPECT_TRUE(at::equal(parts.select(1, 1), x.to(at::kBFloat16)));
  const auto down = kernels::split_factor(x, FactorPlace::kFirst, 0);
  EXPECT_TRUE(at::equal(down.view({3, 7, 530}), parts.transpose(0, 1)));
  const auto other = random({530, 7}, at::kFloat, 1);
  EXPECT_TRUE(at::equal(kernels::split_factor(other.t(), FactorPlace::kSecond, 1),
                        kernels::split_factor(other.t().contiguous(), FactorPlace::kSecond, 1)));
  EXPECT_EQ(kernels::split_factor(other.t(), FactorPlace::kSecond, 1).stride(0), 1) << "was copied";
}

// y, dx and dW of a linear layer, each against float64: the largest error over the largest value.
std::vector<double> errors_of(const std::string& products, const Inputs& inputs) {
  const auto run = [](const Inputs& in) { return kernels::linear(in[0], in[1], in[2]); };
  const ProductsAs as(products);
  const auto found = support::gradients(run, inputs);
  Inputs wide;
  for (const auto& input : inputs) wide.push_back(input.to(at::kDouble));
  const auto expected = support::gradients(run, wide);
  const auto error = [](const at::Tensor& a, const at::Tensor& b) {
    EXPECT_EQ(a.scalar_type(), at::kFloat);
    return (a.to(at::kDouble) - b).abs().max().item<double>() / b.abs().max().item<double>();
  };
  return {error(found.output, expected.output), error(found.inputs[0], expected.inputs[0]),
          error(found.inputs[1], expected.inputs[1]), error(found.inputs[2], expected.inputs[2])};
}

// A layer's sizes, odd ones, and sums in which large terms cancel.
std::vector<Inputs> layers() {
  auto cancelling = random({300, 400}, at::kFloat, 4);
  cancelling.narrow(1, 200, 200).copy_(-cancelling.narrow(1, 0, 200));
  return {
      {random({394, 384}, at::kFloat, 1), random({576, 384}, at::kFloat, 2),
       random({576}, at::kFloat, 3)},
      {random({65, 33}, at::kFloat, 1), random({7, 33}, at::kFloat, 2), random({7}, at::kFloat, 3)},
      {cancelling, random({200, 400}, at::kFloat, 5), random({200}, at::kFloat, 6)}};
}

TEST(SplitProductsTest, SixProductsHaveTheErrorsOfFloat32AndThreeThoseOfSixteenBits) {
  for (const auto& inputs : layers()) {
    const auto plain = errors_of("float32", inputs), six = errors_of("bfloat16x6", inputs),
               three = errors_of("bfloat16x3", inputs);
    for (size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(i);
      EXPECT_LT(six[i], 3 * plain[i] + 3e-7);
      EXPECT_LT(three[i], 3e-5);
      EXPECT_GT(three[i], 5e-7) << "more than its terms were summed";
    }
    EXPECT_EQ(six[3], plain[3]) << "the bias has no product";
  }
}

// Fewer rows than a panel's worth are multiplied as they are.
TEST(SplitProductsTest, FewRowsAreNotSplit) {
  const auto x = random({63, 40}, at::kFloat, 1), w = random({24, 40}, at::kFloat, 2);
  const auto plain = kernels::linear(x, w, {});
  const ProductsAs three("bfloat16x3");
  support::expect_same_bits(kernels::linear(x, w, {}), plain, "y");
}

TEST(SplitProductsTest, AnInfinityGivesNoNumber) {
  auto x = at::ones({64, 8});
  x[3][5] = std::numeric_limits<float>::infinity();
  const ProductsAs six("bfloat16x6");
  const auto y = kernels::linear(x, at::ones({4, 8}), {});
  EXPECT_FALSE(at::isfinite(y[3]).any().item<bool>());
  EXPECT_EQ(at::isfinite(y).sum().item<int64_t>(), 63 * 4);
}

TEST(SplitProductsTest, SameBitsForAnyNumberOfThreads) {
  if (support::threads_split_sums()) GTEST_SKIP() << "skipped: sums are split by threads";
  for (const char* products : {"bfloat16x6", "bfloat16x3"}) {
    SCOPED_TRACE(products);
    const ProductsAs as(products);
    for (const auto& inputs : layers()) {
      support::expect_same_bits_for_any_threads([&] {
        const auto result = support::gradients(
            [](const Inputs& in) { return kernels::linear(in[0], in[1], in[2]); }, inputs);
        return Inputs{result.output, result.inputs[0], result.inputs[1], result.inputs[2]};
      });
    }
  }
}

TEST(SplitProductsTest, UnknownNamesAreRefused) {
  EXPECT_THROW(kernels::choose_float32_products("bfloat16x9"), ConfigError);
  EXPECT_EQ(kernels::float32_products(), kernels::Float32Products::kFloat32);
}

}  // namespace
}  // namespace fovea
