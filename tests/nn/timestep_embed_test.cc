#include "fovea/nn/timestep_embed.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"
#include "tests/nn/layers_common.h"

namespace fovea::nn {
namespace {

TEST(TimestepEmbedTest, FeaturesAreSinesAndCosinesOfFallingFrequencies) {
  const auto steps = at::tensor({0, 1, 999}, at::kLong);
  const auto interleaved = timestep_features(steps, 6, TimestepLayout::kInterleaved);
  const auto halves = timestep_features(steps, 6, TimestepLayout::kCosSin);
  ASSERT_EQ(interleaved.sizes(), (at::IntArrayRef{3, 6}));
  for (int64_t i = 0; i < 3; ++i) {
    const auto angle = steps.to(at::kDouble) / std::pow(10000.0, static_cast<double>(i) / 3);
    const auto expect = [&](const at::Tensor& features, int64_t place, const at::Tensor& value) {
      support::expect_close(features.select(1, place), value, at::kDouble, "feature");
    };
    expect(interleaved, 2 * i, angle.sin());
    expect(interleaved, 2 * i + 1, angle.cos());
    expect(halves, i, angle.cos());
    expect(halves, 3 + i, angle.sin());
  }
}

TEST(TimestepEmbedTest, OddWidthsAreRefused) {
  EXPECT_THROW(timestep_features(at::tensor({1}, at::kLong), 5, TimestepLayout::kCosSin), Error);
}

TEST(TimestepEmbedTest, DropsInTrainingOnly) {
  TimestepEmbed embed(TimestepEmbedOptions{.width = 4, .dim = 64, .drop_rate = 0.5}, at::kCPU);
  randomize(*embed, 1);
  assign_names(*embed);
  const auto steps = at::tensor({3, 700}, at::kLong);
  embed->eval();
  const auto whole = embed(steps, at::kFloat);
  embed->train();
  EXPECT_THROW(embed(steps, at::kFloat), Error);  // outside of a step
  const StepScope scope(1, 0, at::tensor({0, 1}, at::kLong));
  EXPECT_FALSE(embed(steps, at::kFloat).equal(whole));
  EXPECT_TRUE(embed(steps, at::kFloat).equal(embed(steps, at::kFloat)));
}

}  // namespace
}  // namespace fovea::nn
