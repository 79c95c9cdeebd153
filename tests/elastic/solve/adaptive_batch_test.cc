#include "fovea/elastic/solve/adaptive_batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace fovea::elastic {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of batches of a gradient of square `signal` and a sample's covariance of trace `noise`, in the
// mean, with means over m and n samples.
GradientHalves halves_of(double signal, double noise, double m, double n) {
  return {.first_square = m * m * (signal + noise / m),
          .second_square = n * n * (signal + noise / n),
          .product = m * n * signal,
          .first_weight = m,
          .second_weight = n};
}

AdaptiveBatchOptions options_of(double target) {
  return {.similarity_target = target,
          .rate = 0.1,
          .interval = 10,
          .lower = 64,
          .upper = 4096,
          .original_batch = 64};
}

// Steps of a problem whose gradients are noise over a signal, until nothing has changed for a while
// -> the batches, one for each change.
std::vector<int64_t> trajectory(AdaptiveBatch& adaptive, double signal, double noise) {
  std::vector<int64_t> batches = {adaptive.batch()};
  for (int64_t step = 1; step <= 4000; ++step) {
    const auto half = static_cast<double>(adaptive.batch()) / 2;
    adaptive.add(halves_of(signal, noise, half, half));
    if (!adaptive.is_look_due(step)) continue;
    const auto next = adaptive.next_batch();
    if (next == adaptive.batch()) continue;
    adaptive.change_to(next);
    batches.push_back(next);
  }
  return batches;
}

TEST(AdaptiveBatchTest, CosineIsOfTheHalves) {
  const GradientHalves halves{.first_square = 4, .second_square = 9, .product = 3};
  EXPECT_DOUBLE_EQ(*halves.cosine(), 0.5);
  const GradientHalves same{.first_square = 1e-300, .second_square = 1e-300, .product = 1e-300};
  EXPECT_DOUBLE_EQ(*same.cosine(), 1);  // whose squares' product no double holds
  for (const double bad : {kNan, kInfinity, 0.0, -1.0}) {
    EXPECT_FALSE((GradientHalves{.first_square = bad, .second_square = 1, .product = 1}).cosine());
    EXPECT_FALSE((GradientHalves{.first_square = 1, .second_square = bad, .product = 1}).cosine());
  }
  EXPECT_FALSE((GradientHalves{.first_square = 1, .second_square = 1, .product = kNan}).cosine());
}

// Halves of other sizes too, as of an odd number of slots.
TEST(AdaptiveBatchTest, NoiseIsWithoutBias) {
  for (const double n : {5.0, 8.0, 100.0}) {
    const auto parts = noise_of(halves_of(2.5, 30, 5, n));
    ASSERT_TRUE(parts);
    EXPECT_DOUBLE_EQ(parts->signal, 2.5);
    EXPECT_DOUBLE_EQ(parts->noise, 30);
  }
  EXPECT_FALSE(noise_of(halves_of(2.5, 30, 5, 0)));
  EXPECT_FALSE(noise_of({.first_square = kNan, .first_weight = 1, .second_weight = 1}));
}

// The batch at which the halves agree as the target says: n = 2 noise / signal / r_target.
TEST(AdaptiveBatchTest, ComesToWhereTheTargetIsMetAndStays) {
  for (const int64_t first : {64, 4096}) {
    AdaptiveBatch adaptive(options_of(0.5), first);
    const auto batches = trajectory(adaptive, 1, 256);
    EXPECT_GT(batches.size(), 10u);
    for (size_t i = 1; i < batches.size(); ++i) {  // without turning back
      EXPECT_EQ(batches[i] > batches[i - 1], first == 64) << i;
    }
    EXPECT_GT(adaptive.batch(), 512 / 1.11);
    EXPECT_LT(adaptive.batch(), 512 / 0.89);
  }
}

TEST(AdaptiveBatchTest, MetricNoiseComesToTheNoiseScale) {
  auto options = options_of(0.5);
  options.follows_noise = true;
  AdaptiveBatch adaptive(options, 64);
  trajectory(adaptive, 1, 700);
  EXPECT_GT(adaptive.batch(), 700 / 1.11);
  EXPECT_LT(adaptive.batch(), 700 / 0.89);
  adaptive.add(halves_of(1, 700, 350, 350));
  EXPECT_NEAR(*adaptive.noise_scale(), 700, 1e-6);
  // Nothing but noise: as large as can be.
  AdaptiveBatch lost(options, 64);
  trajectory(lost, -1e-3, 700);
  EXPECT_EQ(lost.batch(), 4096);
  EXPECT_FALSE(lost.noise_scale());
}

TEST(AdaptiveBatchTest, StaysWithinItsBounds) {
  AdaptiveBatch up(options_of(0.5), 64), down(options_of(0.5), 4096);
  trajectory(up, 1, 1e9);
  EXPECT_EQ(up.batch(), 4096);
  trajectory(down, 1, 1e-9);
  EXPECT_EQ(down.batch(), 64);
  auto one = options_of(0.5);
  one.upper = one.lower;
  AdaptiveBatch fixed(one, 64);
  EXPECT_EQ(trajectory(fixed, 1, 1e9).size(), 1u);
  // What somebody asked for beyond them holds until the next look.
  fixed.change_to(5000);
  EXPECT_EQ(fixed.batch(), 5000);
  EXPECT_EQ(fixed.next_batch(), 64);
}

TEST(AdaptiveBatchTest, SmallBatchesChangeByOneSample) {
  auto options = options_of(0.5);
  options.lower = 2;
  options.rate = 0.01;
  AdaptiveBatch adaptive(options, 2);
  for (int i = 0; i < 10; ++i) adaptive.add(halves_of(1, 1e6, 1, 1));
  EXPECT_EQ(adaptive.next_batch(), 3);
}

// What JABAS has no branch for: the target itself, and what is no number.
TEST(AdaptiveBatchTest, TiesAndWhatIsNoNumberChangeNothing) {
  AdaptiveBatch tie(options_of(0.25), 64);
  for (int i = 0; i < 10; ++i) {
    tie.add({.first_square = 16,
             .second_square = 16,
             .product = 4,
             .first_weight = 32,
             .second_weight = 32});
  }
  EXPECT_EQ(*tie.similarity(), 0.25);
  EXPECT_EQ(tie.next_batch(), 64);
  AdaptiveBatch none(options_of(0.25), 64);
  for (int i = 0; i < 10; ++i) {
    none.add({.first_square = kNan, .second_square = 1, .product = kNan});
    none.add({});
  }
  EXPECT_FALSE(none.similarity());
  EXPECT_FALSE(none.noise_scale());
  EXPECT_EQ(none.next_batch(), 64);
  // They leave what was measured as it is.
  const auto before = tie.state().similarity;
  tie.add({});
  EXPECT_EQ(tie.state().similarity, before);
  EXPECT_EQ(tie.state().count, 10);
}

// A single step says little: of fewer than eight nothing follows.
TEST(AdaptiveBatchTest, LooksAtSeveralSteps) {
  auto options = options_of(0.5);
  options.interval = 1;
  AdaptiveBatch adaptive(options, 64);
  for (int i = 0; i < 7; ++i) adaptive.add(halves_of(1, 1e6, 32, 32));
  EXPECT_EQ(adaptive.next_batch(), 64);
  adaptive.add(halves_of(1, 1e6, 32, 32));
  EXPECT_EQ(adaptive.next_batch(), 70);
  EXPECT_FALSE(adaptive.is_look_due(0));
  EXPECT_TRUE(adaptive.is_look_due(1));
}

TEST(AdaptiveBatchTest, GoesOnFromItsState) {
  AdaptiveBatch whole(options_of(0.3), 64), first(options_of(0.3), 64);
  const auto add = [](AdaptiveBatch& adaptive, int begin, int end) {
    for (int i = begin; i < end; ++i) adaptive.add(halves_of(1 + 0.1 * (i % 7), 300, 31, 33));
  };
  add(whole, 0, 25);
  add(first, 0, 13);
  AdaptiveBatch second(options_of(0.3), 64);
  second.restore(first.state());
  add(second, 13, 25);
  EXPECT_EQ(second.state().similarity, whole.state().similarity);
  EXPECT_EQ(second.state().noise, whole.state().noise);
  EXPECT_EQ(second.next_batch(), whole.next_batch());
}

TEST(AdaptiveBatchTest, LearningRateFollows) {
  auto options = options_of(0.5);
  EXPECT_DOUBLE_EQ(AdaptiveBatch(options, 64).lr_factor(256), 2);
  options.lr_modifier = "linear";
  EXPECT_DOUBLE_EQ(AdaptiveBatch(options, 64).lr_factor(256), 4);
  options.lr_modifier = "none";
  EXPECT_DOUBLE_EQ(AdaptiveBatch(options, 64).lr_factor(256), 1);
}

TEST(AdaptiveBatchTest, KeysSayWhetherItIsOn) {
  SolveConfig config;
  EXPECT_FALSE(is_adaptive(config));
  config.similarity_target = 0.3;
  EXPECT_TRUE(is_adaptive(config));
  config.enable_adjust = false;
  EXPECT_FALSE(is_adaptive(config));
  SolveConfig noise;
  noise.metric = "noise";
  EXPECT_TRUE(is_adaptive(noise));
  noise.batch_size_upper_bound = 128;
  const auto options = adaptive_options(noise, 32);
  EXPECT_TRUE(options.follows_noise);
  EXPECT_EQ(options.lower, 32);
  EXPECT_EQ(options.upper, 128);
  EXPECT_EQ(options.original_batch, 32);
}

}  // namespace
}  // namespace fovea::elastic
