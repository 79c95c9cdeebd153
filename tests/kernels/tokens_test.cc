#include "fovea/kernels/elementwise/tokens.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

// prefix [1, P, D], patches [B, N, D], position [1, N, D].
Inputs inputs_of(at::ScalarType dtype, int64_t B, int64_t N, int64_t D) {
  return {random({1, 2, D}, dtype, 1), random({B, N, D}, dtype, 2), random({1, N, D}, dtype, 3)};
}

at::Tensor join(const Inputs& in) { return kernels::join_tokens(in[0], in[1], in[2]); }

at::Tensor plain_join(const Inputs& in) {
  const auto y = in[2].defined() ? in[1] + in[2] : in[1];
  return in[0].defined() ? at::cat({in[0].expand({y.size(0), -1, -1}), y}, 1) : y;
}

TEST(JoinTokensTest, HasTheBitsOfTheOperationsOneByOne) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble, at::kHalf}) {
    for (const int64_t D : {1, 13, 192}) {
      for (const int64_t B : {1, 3}) {
        SCOPED_TRACE(std::string(c10::toString(dtype)) + " " + std::to_string(D));
        const auto in = inputs_of(dtype, B, 37, D);
        for (const auto& prefix : {in[0], at::Tensor()}) {
          for (const auto& position : {in[2], at::Tensor()}) {
            const Inputs given = {prefix, in[1], position};
            support::expect_same_bits(join(given), plain_join(given), "tokens");
          }
        }
      }
    }
  }
}

// A table is float32 whatever the tokens are.
TEST(JoinTokensTest, IsOfTheDtypeOfThePatches) {
  const auto in = inputs_of(at::kFloat, 2, 5, 8);
  const auto patches = in[1].to(at::kBFloat16);
  const Inputs rounded = {in[0].to(at::kBFloat16), patches, in[2].to(at::kBFloat16)};
  support::expect_same_bits(join({in[0], patches, in[2]}), plain_join(rounded), "tokens");
}

TEST(JoinTokensTest, GradientsAreThoseOfTheOperations) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto in = inputs_of(dtype, 3, 9, 7);
    const auto actual = support::gradients(join, in), expected = support::gradients(plain_join, in);
    support::expect_same_bits(actual.output, expected.output, "tokens");
    for (size_t i = 0; i < in.size(); ++i) {
      support::expect_same_bits(actual.inputs[i], expected.inputs[i], "gradient");
    }
  }
}

TEST(JoinTokensTest, TakesStridesAndEmptyBatches) {
  const auto in = inputs_of(at::kFloat, 2, 9, 12);
  const auto turned = [](const at::Tensor& x) {
    return x.transpose(1, 2).contiguous().transpose(1, 2);
  };
  support::expect_same_bits(join({turned(in[0]), turned(in[1]), turned(in[2])}), join(in),
                            "tokens");
  EXPECT_EQ(join({in[0], at::empty({0, 9, 12}), in[2]}).sizes(), (at::IntArrayRef{0, 11, 12}));
}

TEST(JoinTokensTest, SameBitsForAnyNumberOfThreads) {
  const auto in = inputs_of(at::kFloat, 3, 197, 50);
  support::expect_same_bits_for_any_threads([&] { return Inputs{join(in)}; });
}

TEST(JoinTokensTest, WrongShapesAreRefused) {
  const auto in = inputs_of(at::kFloat, 2, 9, 12);
  EXPECT_THROW(join({in[0], in[1], in[2].narrow(1, 0, 8)}), Error);
  EXPECT_THROW(join({in[0].narrow(2, 0, 11), in[1], in[2]}), Error);
  EXPECT_THROW(join({in[0], in[1][0], in[2]}), Error);
}

}  // namespace
}  // namespace fovea
