#include "fovea/kernels/linear/batched_product.h"

#include <ATen/ops/bmm.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

at::Tensor product_of_pair(const std::vector<at::Tensor>& in) {
  return kernels::batched_product(in[0], in[1]);
}

TEST(BatchedProductTest, MatchesItsDefinitionWithGradients) {
  const auto definition = [](const std::vector<at::Tensor>& in) {
    return at::bmm(in[0], in[1].transpose(1, 2));
  };
  const auto a = support::random({3, 17, 40}, at::kFloat, 1);
  const auto b = support::random({3, 40, 5}, at::kFloat, 2).transpose(1, 2);
  support::expect_matches_reference(product_of_pair, definition, {a, b}, at::kFloat);
  support::expect_matches_reference(product_of_pair, definition,
                                    {a.narrow(0, 0, 1), b.narrow(0, 1, 1)}, at::kFloat);
}

TEST(BatchedProductTest, GradientsAreDerivatives) {
  support::expect_gradients_are_derivatives(
      product_of_pair,
      {support::random({2, 3, 4}, at::kDouble, 1), support::random({2, 5, 4}, at::kDouble, 2)});
}

TEST(BatchedProductTest, DoesNotDependOnTheNumberOfThreads) {
  for (const int64_t batch : {1, 5}) {
    const auto a = support::random({batch, 33, 900}, at::kFloat, 1).requires_grad_();
    const auto b = support::random({batch, 65, 900}, at::kFloat, 2).requires_grad_();
    support::expect_same_bits_for_any_threads([&] {
      for (auto x : {a, b}) x.mutable_grad() = at::Tensor();
      const auto c = kernels::batched_product(a, b);
      c.square().sum().backward();
      return std::vector<at::Tensor>{c.detach(), a.grad(), b.grad()};
    });
  }
}

TEST(BatchedProductTest, RefusesOtherWidthsAndBatches) {
  const auto a = support::random({2, 3, 4}, at::kFloat, 1);
  EXPECT_THROW(kernels::batched_product(a, support::random({2, 3, 5}, at::kFloat, 2)), Error);
  EXPECT_THROW(kernels::batched_product(a, support::random({1, 3, 4}, at::kFloat, 2)), Error);
  EXPECT_THROW(kernels::batched_product(a, a.to(at::kDouble)), Error);
}

}  // namespace
}  // namespace fovea
