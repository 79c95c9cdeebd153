// fovea/train/diffusion/sampler.cc, against Hugging Face's DDPMScheduler and DDIMScheduler
// (tools/golden/make_diffusion.py).
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "fovea/core/error.h"
#include "fovea/train/diffusion/sampler.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

using support::NamedTensors;

constexpr double kGoldenRange = 0.75;

NamedTensors step_of_golden(const nlohmann::json& one, const NamedTensors& values, size_t place,
                            const NoiseSchedule& schedule) {
  const auto& sample = values.at("sample");
  const auto previous = one.at("previous").at(place).get<int64_t>();
  const AlphaBars alpha_bars{schedule.alpha_bar(one.at("timesteps").at(place).get<int64_t>()),
                             schedule.alpha_bar(previous)};
  auto ends = denoised(prediction_type_from_name(one.at("prediction")), values.at("output"), sample,
                       alpha_bars.now);
  if (one.at("clip")) ends.image = ends.image.clamp(-kGoldenRange, kGoldenRange);
  if (one.at("kind") == "ddim") {
    return {{"image", ends.image},
            {"previous", ddim_step(ends, alpha_bars, one.at("eta"), values.at("noise"))}};
  }
  const auto noise = previous >= 0 ? values.at("noise") : at::Tensor();
  return {{"image", ends.image},
          {"previous",
           ddpm_step(ends.image, sample, alpha_bars, one.at("variance") == "large", noise)}};
}

TEST(SamplerTest, StepsEqualHuggingFace) {
  const auto golden = support::load_golden("diffusion_schedulers.safetensors");
  const NoiseSchedule schedule({});
  NamedTensors actual, expected;
  const auto& cases = golden.config.at("cases");
  for (size_t number = 0; number < cases.size(); ++number) {
    for (size_t place = 0; place < 3; ++place) {
      const auto group = std::to_string(number) + "/" + std::to_string(place);
      const auto values = golden.group(group);
      for (const auto& [name, tensor] : step_of_golden(cases[number], values, place, schedule)) {
        actual[group + "/" + name] = tensor;
        expected[group + "/" + name] = values.at(name);
      }
    }
  }
  ASSERT_EQ(actual.size(), 36 * 3 * 2);
  EXPECT_PARITY(actual, expected, at::kDouble);
}

TEST(SamplerTest, TimeStepsEqualHuggingFace) {
  const auto golden = support::load_golden("diffusion_schedulers.safetensors");
  for (const auto& one : golden.config.at("spacings")) {
    const std::string spacing = one.at("spacing");
    const int64_t steps = one.at("steps");
    const auto expected = golden.at("timesteps/" + spacing + "/" + std::to_string(steps));
    EXPECT_TRUE(at::tensor(sampling_timesteps(1000, steps, spacing), at::kLong).equal(expected))
        << spacing << " " << steps;
  }
  EXPECT_THROW(sampling_timesteps(10, 11, "leading"), ConfigError);
  EXPECT_THROW(sampling_timesteps(10, 5, "linspace"), ConfigError);
}

// A model with random weights everywhere, also where adaLN-Zero starts at zero.
std::shared_ptr<models::DiffusionVit> random_model(int64_t num_classes = 0) {
  models::DiffusionVitConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = {4};
  vit.patch_size = {2};
  vit.in_chans = 1;
  vit.embed_dim = 16;
  vit.depth = 1;
  vit.num_heads = 2;
  config.num_classes = num_classes;
  auto model = std::make_shared<models::DiffusionVit>(config);
  model->init_weights(1);
  const at::NoGradGuard no_grad;
  for (auto& item : model->named_parameters()) {
    item.value().add_(support::random(item.value().sizes().vec(), at::kFloat, 3) * 0.2);
  }
  model->eval();
  return model;
}

at::Tensor draw_tiny(models::DiffusionVit& model, const SampleRequest& request) {
  const NoiseSchedule schedule({.num_time_steps = 40});
  return draw_samples(model, schedule, PredictionType::kEpsilon, request,
                      at::TensorOptions().dtype(at::kFloat));
}

TEST(SamplerTest, SamplesDoNotDependOnTheBatch) {
  const auto model = random_model(3);
  for (const std::string kind : {"ddim", "ddpm"}) {
    SampleRequest request{.count = 5, .seed = 2, .classes = {0, 1, 2, 0, 1}};
    request.sampler = {.kind = kind, .steps = 4, .eta = 0.5, .guidance = 1.5};
    const auto together = draw_tiny(*model, request);
    EXPECT_EQ(together.sizes(), (at::IntArrayRef{5, 1, 4, 4}));
    request.batch_size = 2;
    support::expect_close(draw_tiny(*model, request), together, at::kFloat, kind + " in batches");
    auto last = request;
    last.first = 3;
    last.count = 2;
    last.classes = {0, 1};
    support::expect_close(draw_tiny(*model, last), together.narrow(0, 3, 2), at::kFloat,
                          kind + " from the middle");
  }
}

TEST(SamplerTest, DdimWithoutEtaIsDeterministicAndOthersFollowTheSeed) {
  const auto model = random_model();
  SampleRequest request{.count = 3, .seed = 2};
  request.sampler = {.kind = "ddim", .steps = 5};
  const auto first = draw_tiny(*model, request);
  support::expect_same_bits(draw_tiny(*model, request), first, "again");
  EXPECT_LE(first.abs().max().item<double>(), 1) << "clipped to the range of the data";
  request.seed = 3;
  EXPECT_FALSE(draw_tiny(*model, request).equal(first));
  request.seed = 2;
  request.sampler.eta = 1;
  EXPECT_FALSE(draw_tiny(*model, request).equal(first));
  request.sampler = {.kind = "ddpm", .steps = 5};
  const auto ancestral = draw_tiny(*model, request);
  support::expect_same_bits(draw_tiny(*model, request), ancestral, "the noise has its own stream");
}

// With one step, the sample is the image that the guided output predicts.
TEST(SamplerTest, GuidanceMovesFromTheSampleWithoutToThatWithTheClass) {
  const auto model = random_model(2);
  const auto with_guidance = [&](double guidance, std::vector<int64_t> classes) {
    SampleRequest request{.count = 1, .classes = std::move(classes)};
    request.sampler = {.kind = "ddim", .steps = 1, .guidance = guidance, .clip = false};
    return draw_tiny(*model, request);
  };
  const auto with = with_guidance(1, {1}), without = with_guidance(1, {});
  EXPECT_FALSE(with.equal(without));
  support::expect_close(with_guidance(0, {1}), without, at::kFloat, "guidance 0");
  support::expect_close(with_guidance(3, {1}), without + 3 * (with - without), at::kFloat,
                        "guidance 3");
}

TEST(SamplerTest, RefusesClassesThatTheModelDoesNotKnow) {
  EXPECT_THROW(draw_tiny(*random_model(2), {.count = 1, .classes = {2}}), ConfigError);
  EXPECT_THROW(draw_tiny(*random_model(), {.count = 1, .classes = {0}}), ConfigError);
  SampleRequest guided{.count = 1};
  guided.sampler.steps = 4;
  guided.sampler.guidance = 2;
  EXPECT_THROW(draw_tiny(*random_model(), guided), ConfigError);
  const auto training = random_model();
  training->train();
  EXPECT_THROW(draw_tiny(*training, {.count = 1}), Error);
}

// A fresh model of adaLN-Zero predicts zeros: no noise, and the way back to any image is known.
TEST(SamplerTest, RedrawsFromTheNoiseOfALevel) {
  models::DiffusionVitConfig config;
  config.encoder.vit.img_size = {4};
  config.encoder.vit.patch_size = {2};
  config.encoder.vit.in_chans = 1;
  config.encoder.vit.embed_dim = 16;
  config.encoder.vit.depth = 1;
  config.encoder.vit.num_heads = 2;
  models::DiffusionVit model(config);
  model.init_weights(1);
  model.eval();
  const NoiseSchedule schedule({});
  SampleRequest request{.count = 2, .seed = 5};
  request.sampler.steps = 10;
  request.sampler.clip = false;
  const auto images = support::random({2, 1, 4, 4}, at::kFloat, 7);
  const auto redrawn =
      redraw(model, schedule, PredictionType::kEpsilon, request, images, 0.45, {at::kFloat});
  EXPECT_EQ(redrawn.timestep, 399);
  const double left = std::sqrt(schedule.alpha_bar(399));
  support::expect_close(redrawn.images, redrawn.noisy / left, at::kFloat, "no noise predicted");
  const auto noise =
      (redrawn.noisy - left * images) / std::sqrt(1 - schedule.alpha_bar(399));  // that of samples
  request.sampler.steps = 1;  // of which the first predicts the image from noise alone
  const auto samples =
      draw_samples(model, schedule, PredictionType::kEpsilon, request, {at::kFloat});
  support::expect_close(samples, noise / std::sqrt(schedule.alpha_bar(999)), at::kFloat, "noise");
  EXPECT_EQ(first_timestep({999, 499, 0}, 1000, 1.0), 0);
  EXPECT_EQ(first_timestep({999, 499, 0}, 1000, 0.0), 2);
  EXPECT_THROW(first_timestep({0}, 1000, 1.5), ConfigError);
}

}  // namespace
}  // namespace fovea::train
