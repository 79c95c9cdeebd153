#include "fovea/optim/newton_schulz.h"

#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"

namespace fovea::optim {
namespace {

TEST(NewtonSchulzTest, SingularValuesComeCloseToOne) {
  for (const auto& shape : {std::vector<int64_t>{20, 50}, {50, 20}}) {
    const auto x = support::random(shape, at::kFloat, 4) * 1000;
    const auto result = newton_schulz(x, 5);
    EXPECT_EQ(result.sizes(), x.sizes());
    const auto values = at::linalg_svdvals(result.to(at::kDouble));
    EXPECT_LT(values.max().item<double>(), 1.3);
    EXPECT_GT(values.min().item<double>(), 0.6);
  }
}

TEST(NewtonSchulzTest, LeavesItsArgumentAndTakesZeros) {
  const auto x = support::random({5, 8}, at::kFloat, 5), before = x.clone();
  newton_schulz(x, 2);
  support::expect_same_bits(x, before, "argument");
  support::expect_same_bits(newton_schulz(at::zeros({3, 4}), 5), at::zeros({3, 4}), "zeros");
  EXPECT_THROW(newton_schulz(at::zeros({3}), 5), Error);
}

}  // namespace
}  // namespace fovea::optim
