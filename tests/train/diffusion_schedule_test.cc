// fovea/train/diffusion/noise_schedule.cc, against Hugging Face's DDPMScheduler
// (tools/golden/make_diffusion.py) and against the definition.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "fovea/core/error.h"
#include "fovea/train/diffusion/noise_schedule.h"
#include "fovea/train/diffusion/row_draws.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

TEST(NoiseScheduleTest, EqualsHuggingFace) {
  const auto golden = support::load_golden("diffusion_schedulers.safetensors");
  for (const std::string name : {"linear", "cosine"}) {
    const NoiseSchedule schedule({.name = name});
    auto expected = golden.group(name);
    for (const char* input : {"images", "noise", "timesteps"}) expected.erase(input);
    std::vector<double> alpha_bars;
    for (int64_t t = 0; t < schedule.num_time_steps(); ++t) {
      alpha_bars.push_back(schedule.alpha_bar(t));
    }
    const auto images = golden.at(name + "/images"), noise = golden.at(name + "/noise");
    const auto timesteps = golden.at(name + "/timesteps");
    const support::NamedTensors actual = {
        {"alpha_bar", at::tensor(alpha_bars, at::kDouble)},
        {"noisy", schedule.add_noise(images, noise, timesteps)},
        {"velocity", schedule.target(PredictionType::kV, images, noise, timesteps)}};
    EXPECT_PARITY(actual, expected, at::kDouble);
  }
}

// Mean and variance of x_t given x0, over many draws of the noise that training uses.
TEST(NoiseScheduleTest, NoisyImagesHaveTheMomentsOfTheForwardProcess) {
  constexpr int64_t kDraws = 20000;
  const auto noise = normal_rows({philox_key(1, "noise"), 3, at::arange(kDraws)}, {2});
  const auto images = at::tensor({0.8, -0.3}, at::kFloat).expand({kDraws, 2});
  for (const std::string name : {"linear", "cosine"}) {
    const NoiseSchedule schedule({.name = name});
    for (const int64_t t : {0, 100, 500, 999}) {
      const auto timesteps = at::full({kDraws}, t, at::kLong);
      const auto noisy = schedule.add_noise(images, noise, timesteps);
      const double variance = 1 - schedule.alpha_bar(t);
      const double error = 5 * std::sqrt(variance / kDraws);  // five standard errors of the mean
      for (int64_t i = 0; i < 2; ++i) {
        const auto values = noisy.select(1, i);
        const double mean = std::sqrt(schedule.alpha_bar(t)) * images[0][i].item<double>();
        EXPECT_NEAR(values.mean().item<double>(), mean, error) << name << t;
        EXPECT_NEAR(values.var().item<double>() / variance, 1, 5 * std::sqrt(2.0 / kDraws))
            << name << t;
      }
    }
    EXPECT_LT(schedule.alpha_bar(999), 1e-4) << "hardly anything of the image is left";
    EXPECT_EQ(schedule.alpha_bar(-1), 1);
  }
}

// However the model puts it, both ends of a noisy image come back.
TEST(NoiseScheduleTest, TargetsOfEveryTypeGiveBackImageAndNoise) {
  const NoiseSchedule schedule({});
  const auto images = support::random({1, 2, 3, 3}, at::kDouble, 1);
  const auto noise = support::random({1, 2, 3, 3}, at::kDouble, 2);
  for (const auto& name : prediction_type_names()) {
    const auto type = prediction_type_from_name(name);
    for (const int64_t t : {0, 400, 999}) {
      const auto timesteps = at::tensor({t}, at::kLong);
      const auto noisy = schedule.add_noise(images, noise, timesteps);
      const auto target = schedule.target(type, images, noise, timesteps);
      const auto ends = denoised(type, target, noisy, schedule.alpha_bar(t));
      support::expect_close(ends.image, images, at::kDouble, name + " image");
      support::expect_close(ends.epsilon, noise, at::kDouble, name + " noise");
    }
  }
}

TEST(NoiseScheduleTest, UnknownNamesAreRefused) {
  EXPECT_THROW(NoiseSchedule({.name = "sigmoid"}), ConfigError);
  EXPECT_THROW(prediction_type_from_name("noise"), ConfigError);
}

TEST(RowDrawsTest, AreFunctionsOfTheRow) {
  const auto key = philox_key(4, "stream");
  const auto rows = at::tensor(std::vector<int64_t>{0, 7, 3, int64_t{1} << 40});
  const kernels::DropKey all{key, 2, rows};
  const auto normals = normal_rows(all, {3, 5});
  const auto integers = integer_rows(all, 1000);
  const auto coins = bernoulli_rows(all, 0.5);
  for (int64_t b = 0; b < rows.size(0); ++b) {
    const kernels::DropKey one{key, 2, rows.narrow(0, b, 1)};
    support::expect_same_bits(normal_rows(one, {3, 5})[0], normals[b], "normals");
    EXPECT_EQ(integer_rows(one, 1000).item<int64_t>(), integers[b].item<int64_t>());
    EXPECT_EQ(bernoulli_rows(one, 0.5).item<bool>(), coins[b].item<bool>());
  }
  EXPECT_FALSE(normals[0].equal(normals[1]));
  EXPECT_FALSE(normal_rows({key, 3, rows}, {3, 5}).equal(normals)) << "another step";
}

TEST(RowDrawsTest, HaveTheirDistributions) {
  constexpr int64_t kRows = 20000;
  const kernels::DropKey key{philox_key(4, "stream"), 0, at::arange(kRows)};
  const auto normals = normal_rows(key, {1});
  EXPECT_NEAR(normals.mean().item<double>(), 0, 5 / std::sqrt(kRows));
  EXPECT_NEAR(normals.var().item<double>(), 1, 5 * std::sqrt(2.0 / kRows));
  const auto integers = integer_rows(key, 10);
  EXPECT_EQ(integers.min().item<int64_t>(), 0);
  EXPECT_EQ(integers.max().item<int64_t>(), 9);
  EXPECT_NEAR(integers.to(at::kDouble).mean().item<double>(), 4.5, 5 * std::sqrt(8.25 / kRows));
  const double share = bernoulli_rows(key, 0.2).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(share, 0.2, 5 * std::sqrt(0.16 / kRows));
}

}  // namespace
}  // namespace fovea::train
