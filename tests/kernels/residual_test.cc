#include "fovea/kernels/elementwise/residual.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

// A mask as drop path draws it.
at::Tensor sample_mask() { return at::tensor({0.0f, 1.25f, 1.25f}); }

// Of x, branch and scale; a mask has no gradient.
support::TensorFunction residual_with(const at::Tensor& mask) {
  return [mask](const Inputs& in) { return kernels::add_residual(in[0], in[1], in[2], mask); };
}

// The operations one by one.
support::TensorFunction plain_residual_with(const at::Tensor& mask) {
  return [mask](const Inputs& in) {
    auto y = in[1];
    if (in[2].defined()) y = y * in[2];
    if (mask.defined()) y = y * mask.to(y.scalar_type()).view({-1, 1, 1});
    return in[0] + y;
  };
}

Inputs residual_inputs(at::ScalarType dtype, int64_t N, int64_t D) {
  return {random({3, N, D}, dtype, 1), random({3, N, D}, dtype, 2),
          random({D}, dtype == at::kDouble ? at::kDouble : at::kFloat, 3)};
}

TEST(ResidualTest, MatchesTheOperationsOneByOne) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble, at::kHalf}) {
    for (const int64_t D : {5, 64, 197}) {
      SCOPED_TRACE(std::string(c10::toString(dtype)) + " " + std::to_string(D));
      const auto in = residual_inputs(dtype, 50, D);
      for (const auto& mask : {sample_mask(), at::Tensor()}) {
        for (const auto& scale : {in[2], at::Tensor()}) {
          support::expect_matches_reference(residual_with(mask), plain_residual_with(mask),
                                            {in[0], in[1], scale}, dtype);
        }
      }
    }
  }
}

TEST(ResidualTest, Float32HasTheirBits) {
  const auto in = residual_inputs(at::kFloat, 40, 100);
  for (const auto& mask : {sample_mask(), at::Tensor()}) {
    for (const auto& scale : {in[2], at::Tensor()}) {
      const Inputs given = {in[0], in[1], scale};
      const auto actual = support::gradients(residual_with(mask), given);
      const auto expected = support::gradients(plain_residual_with(mask), given);
      support::expect_same_bits(actual.output, expected.output, "y");
      support::expect_same_bits(actual.inputs[0], expected.inputs[0], "gradient of x");
      support::expect_same_bits(actual.inputs[1], expected.inputs[1], "gradient of the branch");
    }
  }
}

// Products rounded to bfloat16 one by one would be off by more than the sum's rounding.
TEST(ResidualTest, Bfloat16IsRoundedOnce) {
  const auto in = residual_inputs(at::kBFloat16, 40, 100);
  Inputs wide;
  for (const auto& tensor : in) wide.push_back(tensor.to(at::kFloat));
  support::expect_same_bits(residual_with(sample_mask())(in),
                            plain_residual_with(sample_mask())(wide).to(at::kBFloat16), "y");
}

TEST(ResidualTest, JacobianIsTheDerivative) {
  support::expect_gradients_are_derivatives(residual_with(sample_mask()),
                                            residual_inputs(at::kDouble, 2, 3));
}

TEST(ResidualTest, SameBitsForAnyNumberOfThreads) {
  const auto in = residual_inputs(at::kFloat, 500, 70);
  support::expect_same_bits_for_any_threads([&] {
    const auto result = support::gradients(residual_with(sample_mask()), in);
    return Inputs{result.output, result.inputs[1], result.inputs[2]};
  });
}

TEST(ResidualTest, TakesStridesAndEmptyBatches) {
  const auto in = residual_inputs(at::kFloat, 20, 30);
  const auto turned = in[1].transpose(1, 2).contiguous().transpose(1, 2);
  support::expect_same_bits(kernels::add_residual(in[0], turned, in[2], sample_mask()),
                            kernels::add_residual(in[0], in[1], in[2], sample_mask()), "y");
  const auto none = at::empty({0, 4, 30});
  EXPECT_EQ(kernels::add_residual(none, none, in[2], at::empty({0})).sizes(), none.sizes());
}

TEST(ResidualTest, AMaskOfTokensIsThatOfEachInARowOfItsOwn) {
  const auto in = residual_inputs(at::kFloat, 20, 30);
  const auto row = [](const at::Tensor& x) { return x.flatten(0, 1).unsqueeze(0); };  // [1, T, D]
  const auto column = [](const at::Tensor& x) { return x.flatten(0, 1).unsqueeze(1); };
  const auto mask = random({in[0].size(0) * in[0].size(1)}, at::kFloat, 7);
  for (const auto dtype : {at::kFloat, at::kDouble}) {  // by the kernel and by plain operations
    const auto x = in[0].to(dtype), branch = in[1].to(dtype), scale = in[2].to(dtype);
    const auto packed = kernels::add_residual(row(x), row(branch), scale, mask);
    const auto alone = kernels::add_residual(column(x), column(branch), scale, mask);
    support::expect_same_bits(packed.squeeze(0), alone.squeeze(1), "y");
  }
}

TEST(ResidualTest, MetaTensorsGiveTheShape) {
  const auto options = at::TensorOptions().device(at::kMeta);
  const auto x = at::empty({3, 4, 5}, options);
  const auto y = kernels::add_residual(x, x, at::empty({5}, options), at::empty({3}, options));
  EXPECT_EQ(y.sizes(), x.sizes());
}

TEST(ResidualTest, WrongShapesAreRefused) {
  const auto in = residual_inputs(at::kFloat, 4, 6);
  const auto refuses = [](const at::Tensor& x, const at::Tensor& branch, const at::Tensor& scale,
                          const at::Tensor& mask) {
    EXPECT_THROW(kernels::add_residual(x, branch, scale, mask), Error);
  };
  refuses(in[0], in[1].narrow(2, 0, 5), in[2], sample_mask());
  refuses(in[0], in[1].to(at::kBFloat16), in[2], sample_mask());
  refuses(in[0], in[1], random({5}, at::kFloat, 1), sample_mask());
  refuses(in[0], in[1], in[2], at::tensor({1.0f, 0.0f}));
}

}  // namespace
}  // namespace fovea
