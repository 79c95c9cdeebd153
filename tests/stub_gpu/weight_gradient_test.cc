// Gradients of weights that a GPU's products add to the sums that are there.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "fovea/kernels/linear/linear.h"
#include "fovea/parallel/gradient_hooks.h"
#include "tests/stub_gpu/stub_gpu.h"
#include "tests/support/close.h"
#include "tests/train/graph_run.h"

namespace fovea::stub_gpu {
namespace {

using ::testing::Contains;
using ::testing::Not;

constexpr const char *kAdds = "fovea::linear_add_weight_gradient",
                     *kGives = "fovea::linear_weight_gradient";

// Integers, whose sums are exact in any order. x: [M, K], weight: [N, K], bias: [N].
class WeightGradientTest : public ::testing::Test {
 protected:
  static at::Tensor integers(at::IntArrayRef sizes, int64_t seed) {
    return (support::random(sizes.vec(), at::kFloat, seed) * 3).round();
  }

  WeightGradientTest() {
    weight_.mutable_grad() = sum_;
    take_operators();
  }

  at::Tensor loss() { return kernels::linear(x_, weight_, bias_).mul(dy_).sum(); }

  void expect_sum(const at::Tensor& before) const {
    support::expect_same_bits(weight_.grad().cpu(), before + dy_.cpu().t().matmul(x_.cpu()),
                              "gradient");
  }

  const at::Tensor x_ = integers({6, 8}, 1).to(gpu()), dy_ = integers({6, 16}, 2).to(gpu());
  const at::Tensor before_ = integers({16, 8}, 3), sum_ = before_.to(gpu());
  at::Tensor weight_ = integers({16, 8}, 4).to(gpu()).requires_grad_();
  at::Tensor bias_ = integers({16}, 5).to(gpu()).requires_grad_();
};

TEST_F(WeightGradientTest, IsAddedByTheProduct) {
  loss().backward();
  const auto calls = take_operators();
  EXPECT_TRUE(weight_.grad().is_same(sum_));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), kAdds), 1);
  EXPECT_THAT(calls, Not(Contains(kGives)));
  EXPECT_THAT(calls, Not(Contains("aten::add_")));
  expect_sum(before_);
  support::expect_same_bits(bias_.grad().cpu(), dy_.cpu().sum(0), "bias");
}

TEST_F(WeightGradientTest, EachUseOfAWeightIsAdded) {
  (loss() + loss()).backward();
  EXPECT_TRUE(weight_.grad().is_same(sum_));
  expect_sum(before_ + dy_.cpu().t().matmul(x_.cpu()));
}

TEST_F(WeightGradientTest, IsGivenWhereThereIsNoneToAddTo) {
  weight_.mutable_grad().reset();
  loss().backward();
  EXPECT_THAT(take_operators(), Not(Contains(kAdds)));
  expect_sum(at::zeros({16, 8}));
}

TEST_F(WeightGradientTest, IsGivenToWhoAsksForIt) {
  const auto found = torch::autograd::grad({loss()}, {weight_});
  support::expect_same_bits(found[0].cpu(), dy_.cpu().t().matmul(x_.cpu()), "gradient");
  support::expect_same_bits(sum_.cpu(), before_, "the sum that was there");
}

TEST_F(WeightGradientTest, IsSeenByHooks) {
  at::Tensor seen;
  weight_.register_hook([&](const at::Tensor& gradient) { seen = gradient; });
  loss().backward();
  support::expect_same_bits(seen.cpu(), dy_.cpu().t().matmul(x_.cpu()), "gradient");
  expect_sum(before_);
}

// Those who exchange gradients wait for all of them.
TEST_F(WeightGradientTest, IsToldOfWhenItIsThere) {
  int64_t told = 0;
  parallel::GradientHooks hooks;
  hooks.add(weight_, "weight", [&] {
    ++told;
    expect_sum(before_);
  });
  loss().backward();
  EXPECT_EQ(told, 1);
  EXPECT_THAT(take_operators(), Contains(kAdds));
}

TEST_F(WeightGradientTest, OfATrainingStepAreAddedToTheOptimizersBuffer) {
  train::testing::GraphSetup setup;
  setup.options = {.micro_batch_size = 12, .max_grad_norm = 0.5};
  train::testing::GraphRun expected(setup);
  setup.options.compute.device = gpu();
  train::testing::GraphRun run(setup);
  int64_t num_passes = 0;
  for (int64_t step = 0; step < 2; ++step) {
    auto batch = run.source.loader->next();
    auto same = expected.source.loader->next();
    run.take(batch, step);
    expected.take(same, step);
    num_passes += (batch.size() + 11) / 12;
  }
  const auto calls = take_operators();
  EXPECT_GT(std::count(calls.begin(), calls.end(), kAdds), num_passes);
  // That of the patches' weight, of which the layer multiplies by a view.
  EXPECT_EQ(std::count(calls.begin(), calls.end(), kGives), num_passes);
  support::expect_close(run.optimizer->flat_param().cpu(), expected.optimizer->flat_param(),
                        at::kFloat, "weights");
}

}  // namespace
}  // namespace fovea::stub_gpu
