#include "fovea/kernels/cuda/layer_norm.h"

#include "tests/cuda_kernels/kernel_cases.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"

namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

constexpr double kEps = 1e-6;

struct NormResults {
  at::Tensor y, mean, rstd, dx, dweight, dbias, dx_sums;
};

class LayerNormKernelTest : public testing::TestWithParam<support::KernelCase> {
 protected:
  static at::Tensor rows_of_nans(int64_t M, int64_t D) { return at::full({M, D}, NAN, at::kFloat); }

  // x, dy, dskip: [M, D]; weight, bias: [D]; dskip, weight and bias may be undefined.
  NormResults run(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const at::Tensor& dy, const at::Tensor& dskip = {}) const {
    const kernels::cuda::NormShape shape{
        .rows = x.size(0), .width = x.size(1), .type = GetParam().type};
    NormResults r{.y = support::unwritten_like(x),
                  .mean = rows_of_nans(x.size(0), 1),
                  .rstd = rows_of_nans(x.size(0), 1),
                  .dx = support::unwritten_like(x),
                  .dweight = {},
                  .dbias = {},
                  .dx_sums = {}};
    kernels::cuda::layer_norm_forward({.x = x.const_data_ptr(),
                                       .weight = support::floats_or_null(weight),
                                       .bias = support::floats_or_null(bias),
                                       .eps = static_cast<float>(kEps),
                                       .y = r.y.mutable_data_ptr(),
                                       .mean = r.mean.mutable_data_ptr<float>(),
                                       .rstd = r.rstd.mutable_data_ptr<float>()},
                                      shape, nullptr);
    const int64_t P = kernels::cuda::layer_norm_parts(shape), D = x.size(1);
    const auto parts = rows_of_nans(P, 3 * D);
    auto* places = parts.mutable_data_ptr<float>();
    kernels::cuda::layer_norm_backward({.dy = dy.const_data_ptr(),
                                        .x = x.const_data_ptr(),
                                        .dskip = dskip.defined() ? dskip.const_data_ptr() : nullptr,
                                        .weight = support::floats_or_null(weight),
                                        .mean = r.mean.const_data_ptr<float>(),
                                        .rstd = r.rstd.const_data_ptr<float>(),
                                        .dx = r.dx.mutable_data_ptr(),
                                        .dweight_parts = weight.defined() ? places : nullptr,
                                        .dbias_parts = bias.defined() ? places + D : nullptr,
                                        .dx_parts = dskip.defined() ? places + 2 * D : nullptr,
                                        .parts_stride = 3 * D},
                                       shape, nullptr);
    const auto sums = parts.sum(0).view({3, D});
    r.dweight = sums[0];
    r.dbias = sums[1];
    r.dx_sums = sums[2];
    return r;
  }

  void compare(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    const auto dtype = GetParam().dtype;
    const auto dy = random(x.sizes().vec(), dtype, 4);
    const auto actual = run(x, weight, bias, dy);
    Inputs leaves;
    for (const auto& tensor : {x, weight, bias}) {
      leaves.push_back(tensor.defined()
                           ? tensor.detach().to(at::kDouble).clone().set_requires_grad(true)
                           : tensor);
    }
    const auto y = reference::layer_norm(leaves[0], leaves[1], leaves[2], kEps);
    y.backward(dy.to(at::kDouble));
    support::expect_close(actual.y, y, dtype, "y");
    support::expect_close(actual.dx, leaves[0].grad(), dtype, "dx");
    // Gradients of parameters are added up in float32 whatever the dtype of x.
    if (weight.defined()) {
      support::expect_close(actual.dweight, leaves[1].grad(), at::kFloat, "dweight");
    }
    if (bias.defined()) support::expect_close(actual.dbias, leaves[2].grad(), at::kFloat, "dbias");
  }

  at::Tensor rows(int64_t M, int64_t D) const { return random({M, D}, GetParam().dtype, 1); }
  static at::Tensor weight(int64_t D) { return random({D}, at::kFloat, 2); }
  static at::Tensor bias(int64_t D) { return random({D}, at::kFloat, 3); }
};

TEST_P(LayerNormKernelTest, MatchesReferenceForAnyWidth) {
  // Of one thread, one warp, several; vectors that fit and that do not; the widest.
  for (const int64_t D : {2, 5, 64, 100, 197, 256, 264, 384, 768, 1024, 1030, 4096, 8192}) {
    SCOPED_TRACE(D);
    compare(rows(7, D), weight(D), bias(D));
  }
}

TEST_P(LayerNormKernelTest, MatchesReferenceForAnyNumberOfRows) {
  for (const int64_t M : {1, 4, 5, 131}) {
    SCOPED_TRACE(M);
    compare(rows(M, 64), weight(64), bias(64));
  }
  // Parts of five rows; long, and the same for all dtypes.
  if (GetParam().dtype == at::kFloat) compare(rows(4100, 64), weight(64), bias(64));
}

TEST_P(LayerNormKernelTest, ParametersAreOptional) {
  compare(rows(5, 24), {}, {});
  compare(rows(5, 24), weight(24), {});
  compare(rows(5, 24), {}, bias(24));
}

TEST_P(LayerNormKernelTest, AddsTheSkipsGradientAndSumsUp) {
  for (const int64_t D : {24, 197, 768}) {
    SCOPED_TRACE(D);
    const auto x = rows(37, D), dy = random({37, D}, GetParam().dtype, 4);
    const auto dskip = random({37, D}, GetParam().dtype, 5);
    const auto leaf = x.to(at::kDouble).set_requires_grad(true);
    const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
    const auto y = reference::layer_norm(leaf, wide(weight(D)), wide(bias(D)), kEps);
    (y * wide(dy) + leaf * wide(dskip)).sum().backward();
    const auto actual = run(x, weight(D), bias(D), dy, dskip);
    support::expect_close(actual.dx, leaf.grad(), GetParam().dtype, "dx");
    support::expect_close(actual.dx_sums, leaf.grad().sum(0), at::kFloat, "sums of dx");
    const auto without = run(x, weight(D), bias(D), dy);
    support::expect_same_bits(actual.dweight, without.dweight, "dweight");
    const auto shifted = run(x, weight(D), bias(D), dy, support::shifted(dskip));
    support::expect_close(shifted.dx, leaf.grad(), GetParam().dtype, "dx of what is not aligned");
  }
}

TEST_P(LayerNormKernelTest, TakesRowsThatAreNotAligned) {
  const auto x = support::shifted(rows(9, 320));
  compare(x, weight(320), bias(320));
  compare(rows(9, 320), support::shifted(weight(320)), bias(320));
}

TEST_P(LayerNormKernelTest, ScheduleChangesNoBit) {
  for (const int64_t D : {40, 600}) {
    const auto x = rows(21, D), dy = random({21, D}, GetParam().dtype, 4);
    const auto expected = run(x, weight(D), bias(D), dy);
    simt::any_schedule([&] {
      const auto actual = run(x, weight(D), bias(D), dy);
      support::expect_same_bits(actual.y, expected.y, "y");
      support::expect_same_bits(actual.rstd, expected.rstd, "rstd");
      support::expect_same_bits(actual.dx, expected.dx, "dx");
      support::expect_same_bits(actual.dweight, expected.dweight, "dweight");
      support::expect_same_bits(actual.dbias, expected.dbias, "dbias");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LayerNormKernelTest, support::kernel_cases(),
                         support::kernel_case_name);

TEST(LayerNormKernelPartsTest, AreOfAtLeastFourRowsAndAtMost1024) {
  const auto parts = [](int64_t rows) {
    return kernels::cuda::layer_norm_parts(
        {.rows = rows, .width = 64, .type = kernels::cuda::ElementType::kFloat32});
  };
  EXPECT_EQ(parts(1), 1);
  EXPECT_EQ(parts(9), 3);
  EXPECT_EQ(parts(4096), 1024);
  EXPECT_EQ(parts(25216), 1009);
}

}  // namespace
}  // namespace fovea
