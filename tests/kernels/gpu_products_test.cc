// What of GPU products does not need a GPU: where they run, how they are put to cuBLASLt, and rows
// with zeros behind them.
#include "fovea/kernels/linear/gpu_products.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <gtest/gtest.h>

#include "fovea/kernels/cuda/lt_call.h"
#include "fovea/kernels/linear/padded_products.h"
#include "tests/support/close.h"

// M rows, K input width, N output width.
namespace fovea {
namespace {

using kernels::ProductCase;
using kernels::ProductPath;
using kernels::cuda::LtCall;
using kernels::cuda::LtEpilogue;
using kernels::cuda::LtMatrix;
using support::random;

TEST(ProductPathTest, RunsWhereThereIsAKernelForTheShape) {
  const ProductCase layer{at::kBFloat16, true, 50432, 3072, 768, true};
  const auto path = [&](auto... changes) {
    auto product = layer;
    (changes(product), ...);
    return kernels::product_path(product);
  };
  EXPECT_EQ(path(), ProductPath::kFused);
  EXPECT_EQ(path([](auto& p) { p.has_kernels = false; }), ProductPath::kPlain);
  EXPECT_EQ(path([](auto& p) { p.dtype = at::kDouble; }), ProductPath::kPlain);
  EXPECT_EQ(path([](auto& p) { p.dtype = at::kFloat; }), ProductPath::kFused);
  EXPECT_EQ(path([](auto& p) { p.dtype = at::kHalf; }), ProductPath::kFused);
  EXPECT_EQ(path([](auto& p) { p.M = 0; }), ProductPath::kPlain);
  EXPECT_EQ(path([](auto& p) { p.M = int64_t{1} << 31; }), ProductPath::kPlain);
}

TEST(ProductPathTest, RowsThatTensorCoresDoNotTakeArePadded) {
  const auto path = [](at::ScalarType dtype, int64_t K) {
    return kernels::product_path({dtype, true, 50432, 1280, K, true});
  };
  EXPECT_EQ(path(at::kBFloat16, 588), ProductPath::kPadded);  // 14 x 14 patches of 3 channels
  EXPECT_EQ(path(at::kHalf, 588), ProductPath::kPadded);
  EXPECT_EQ(path(at::kBFloat16, kernels::padded_width(588)), ProductPath::kFused);
  EXPECT_EQ(path(at::kBFloat16, 600), ProductPath::kFused);
  EXPECT_EQ(path(at::kFloat, 588), ProductPath::kFused);  // 16 bytes are 4 values there
  EXPECT_EQ(path(at::kBFloat16, 12), ProductPath::kFused);
}

// What is written beside a product has rows of the output's width, and what is read in a backward
// pass those of the input's.
TEST(ProductPathTest, GeluOfAProductTakesRowsOfItsWidth) {
  const kernels::HiddenActivation gelu_tanh{kernels::Activation::kGeluTanh}, gelu;
  const ProductCase layer{at::kBFloat16, true, 50432, 3072, 768, true};
  EXPECT_TRUE(kernels::takes_gpu_gelu(layer, gelu_tanh));
  EXPECT_FALSE(kernels::takes_gpu_gelu(layer, gelu));
  auto other = layer;
  other.N = 12;
  EXPECT_FALSE(kernels::takes_gpu_gelu(other, gelu_tanh));
  EXPECT_TRUE(kernels::takes_gelu_gradient(other, gelu_tanh));
}

TEST(ProductPathTest, OnlyTanhGeluIsTakenAtTheEndOfAProduct) {
  using kernels::Activation;
  const auto takes = [](const ProductCase& product, Activation kind, bool is_gated = false) {
    return kernels::takes_gelu_gradient(product, {.kind = kind, .is_gated = is_gated});
  };
  const ProductCase layer{at::kBFloat16, true, 50432, 768, 3072, true};
  EXPECT_TRUE(takes(layer, Activation::kGeluTanh));
  EXPECT_FALSE(takes(layer, Activation::kGelu));  // cuBLASLt has no exact one
  EXPECT_FALSE(takes(layer, Activation::kGeluTanh, true));
  auto other = layer;
  other.is_aligned = false;
  EXPECT_FALSE(takes(other, Activation::kGeluTanh));
  other = layer;
  other.K = 12;
  EXPECT_FALSE(takes(other, Activation::kGeluTanh));
  other = layer;
  other.has_kernels = false;
  EXPECT_FALSE(takes(other, Activation::kGeluTanh));
}

// Integers: their products and sums are exact, so that any order of them gives the same bits.
at::Tensor integers(const std::vector<int64_t>& shape, uint64_t seed) {
  return (random(shape, at::kFloat, seed) * 3).round();
}

TEST(PaddedProductsTest, ZerosBehindRowsChangeNoBit) {
  EXPECT_EQ(kernels::padded_width(588), 592);
  EXPECT_EQ(kernels::padded_width(592), 592);
  for (const int64_t K : {588, 3, 16}) {
    const int64_t M = 37, N = 24;
    const auto x = integers({M, K}, 1), weight = integers({N, K}, 2), bias = integers({N}, 3);
    const auto dy = integers({M, N}, 4);
    support::expect_same_bits(kernels::padded_product(x, weight, bias),
                              kernels::product(x, weight, bias), "y");
    support::expect_same_bits(kernels::padded_product(x, weight, {}),
                              kernels::product(x, weight, {}), "y without bias");
    const auto dx = kernels::padded_input_gradient(dy, weight);
    EXPECT_TRUE(dx.is_contiguous());
    support::expect_same_bits(dx, kernels::input_gradient(dy, weight), "dx");
    const auto dweight = kernels::padded_weight_gradients(dy, x, false).weight;
    EXPECT_TRUE(dweight.is_contiguous());
    support::expect_same_bits(dweight, kernels::weight_gradients(dy, x, false).weight.contiguous(),
                              "dweight");
  }
}

// Values in memory as cuBLASLt sees them: [rows, columns].
at::Tensor as_lt(const at::Tensor& memory, const LtMatrix& m) {
  EXPECT_EQ(memory.numel(), m.rows * m.columns);
  return memory.reshape({-1}).view({m.columns, m.rows}).t();
}

struct LtResult {
  at::Tensor d;      // as it lies in memory
  at::Tensor bias;   // what kBiasGradient writes
  at::Tensor other;  // what kGelu and kBiasAndGelu write
};

// Of a call, as they lie in memory, where it has them.
struct LtMore {
  at::Tensor bias{}, other{}, c{};
};

// What cuBLASLt's documentation says of a call, in float64.
LtResult run_as_documented(const LtCall& call, const at::Tensor& a, const at::Tensor& b,
                           const LtMore& more = {}) {
  const auto first = as_lt(a, call.a), second = as_lt(b, call.b);
  const auto op_a = call.is_a_transposed ? first.t() : first;
  const auto op_b = call.is_b_transposed ? second.t() : second;
  auto d = op_a.matmul(op_b);
  if (call.adds_c) d = d + as_lt(more.c, call.d);
  EXPECT_EQ(d.sizes(), (std::vector<int64_t>{call.d.rows, call.d.columns}));
  LtResult result;
  switch (call.epilogue) {
    case LtEpilogue::kNone:
      break;
    case LtEpilogue::kBias:  // one value for each row of d
      d = d + more.bias.view({call.d.rows, 1});
      break;
    case LtEpilogue::kBiasGradient:  // one for each column of d: b summed over the inner dim
      result.bias = op_b.sum(0);
      EXPECT_EQ(result.bias.numel(), call.d.columns);
      break;
    case LtEpilogue::kTanhGelu:
      d = at::gelu_backward(d, as_lt(more.other, call.d), "tanh");
      break;
    case LtEpilogue::kBiasAndGelu:
      d = d + more.bias.view({call.d.rows, 1});
      [[fallthrough]];
    case LtEpilogue::kGelu:
      result.other = d.t().contiguous();
      d = at::gelu(d, "tanh");
      break;
  }
  result.d = d.t().contiguous();
  return result;
}

class LtCallTest : public testing::Test {
 protected:
  static constexpr int64_t kM = 5, kK = 7, kN = 3;
  const kernels::cuda::LinearShape shape_{kM, kK, kN, kernels::cuda::ElementType::kBFloat16};
  const at::Tensor x_ = random({kM, kK}, at::kDouble, 1),
                   weight_ = random({kN, kK}, at::kDouble, 2), bias_ = random({kN}, at::kDouble, 3),
                   dy_ = random({kM, kN}, at::kDouble, 4);
};

TEST_F(LtCallTest, Product) {
  const auto plain = run_as_documented(lt_product(shape_, false), weight_, x_);
  support::expect_close(plain.d, x_.matmul(weight_.t()), at::kDouble, "y");
  const auto with_bias = run_as_documented(lt_product(shape_, true), weight_, x_, {.bias = bias_});
  support::expect_close(with_bias.d, x_.matmul(weight_.t()) + bias_, at::kDouble, "y with bias");
  const auto sum = run_as_documented(lt_product(shape_, true, /*has_residual=*/true), weight_, x_,
                                     {.bias = bias_, .c = dy_});
  support::expect_close(sum.d, x_.matmul(weight_.t()) + bias_ + dy_, at::kDouble,
                        "y with bias and residual");
}

TEST_F(LtCallTest, ProductAndGelu) {
  const auto expected = x_.matmul(weight_.t());
  const auto plain = run_as_documented(lt_product_and_gelu(shape_, false), weight_, x_);
  support::expect_close(plain.other, expected, at::kDouble, "y");
  support::expect_close(plain.d, at::gelu(expected, "tanh"), at::kDouble, "GELU of y");
  const auto with_bias =
      run_as_documented(lt_product_and_gelu(shape_, true), weight_, x_, {.bias = bias_});
  support::expect_close(with_bias.other, expected + bias_, at::kDouble, "y with bias");
  support::expect_close(with_bias.d, at::gelu(expected + bias_, "tanh"), at::kDouble,
                        "GELU of y with bias");
}

TEST_F(LtCallTest, InputGradient) {
  const auto expected = dy_.matmul(weight_);
  const auto plain = run_as_documented(lt_input_gradient(shape_, false), weight_, dy_);
  support::expect_close(plain.d, expected, at::kDouble, "dx");
  const auto gelu = run_as_documented(lt_input_gradient(shape_, true), weight_, dy_, {.other = x_});
  support::expect_close(gelu.d, at::gelu_backward(expected, x_, "tanh"), at::kDouble,
                        "dx through GELU");
}

TEST_F(LtCallTest, WeightGradient) {
  const auto call = lt_weight_gradient(shape_, true);
  EXPECT_EQ(call.d.type, kernels::cuda::ElementType::kFloat32);
  const auto found = run_as_documented(call, x_, dy_);
  support::expect_close(found.d, dy_.t().matmul(x_), at::kDouble, "dweight");
  support::expect_close(found.bias, dy_.sum(0), at::kDouble, "dbias");
  const auto sum = random({kN, kK}, at::kDouble, 5);
  const auto added =
      run_as_documented(lt_weight_gradient(shape_, true, /*adds_c=*/true), x_, dy_, {.c = sum});
  support::expect_close(added.d, sum + dy_.t().matmul(x_), at::kDouble, "dweight added to a sum");
}

TEST_F(LtCallTest, CallsThatDifferAreKeptApart) {
  const auto call = lt_product(shape_, true);
  EXPECT_EQ(call, lt_product(shape_, true));
  auto other = shape_;
  other.M += 1;
  EXPECT_NE(call, lt_product(other, true));
  EXPECT_NE(call, lt_product(shape_, false));
  EXPECT_NE(call, lt_product(shape_, true, /*has_residual=*/true));
  EXPECT_NE(call, lt_product_and_gelu(shape_, true));
  EXPECT_NE(lt_weight_gradient(shape_, false), lt_input_gradient(shape_, false));
}

}  // namespace
}  // namespace fovea
