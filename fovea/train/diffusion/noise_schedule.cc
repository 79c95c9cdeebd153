// B batch, T time steps, abar alpha_bar.
#include "fovea/train/diffusion/noise_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/core/error.h"
#include "fovea/kernels/host_part.h"

namespace fovea::train {
namespace {

std::vector<double> linear_betas(const NoiseScheduleOptions& options) {
  std::vector<double> betas;
  const auto last = static_cast<double>(std::max<int64_t>(1, options.num_time_steps - 1));
  for (int64_t t = 0; t < options.num_time_steps; ++t) {
    const double share = static_cast<double>(t) / last;
    betas.push_back(options.beta_start + share * (options.beta_end - options.beta_start));
  }
  return betas;
}

std::vector<double> cosine_betas(int64_t num_time_steps) {
  constexpr double kOffset = 0.008, kMaxBeta = 0.999;
  const auto total = static_cast<double>(num_time_steps);
  const auto alpha_bar = [&](int64_t t) {
    const double angle = (static_cast<double>(t) / total + kOffset) / (1 + kOffset);
    return std::pow(std::cos(angle * std::numbers::pi / 2), 2);
  };
  std::vector<double> betas;
  for (int64_t t = 0; t < num_time_steps; ++t) {
    betas.push_back(std::min(1 - alpha_bar(t + 1) / alpha_bar(t), kMaxBeta));
  }
  return betas;
}

}  // namespace

PredictionType prediction_type_from_name(const std::string& name) {
  if (name == "epsilon") return PredictionType::kEpsilon;
  if (name == "x0") return PredictionType::kX0;
  if (name == "v") return PredictionType::kV;
  fail<ConfigError>("prediction '{}' is unknown; expected epsilon, x0 or v", name);
}

std::vector<std::string> prediction_type_names() { return {"epsilon", "x0", "v"}; }

NoiseSchedule::NoiseSchedule(const NoiseScheduleOptions& options) {
  if (options.name != "linear" && options.name != "cosine") {
    fail<ConfigError>("noise schedule '{}' is unknown; expected linear or cosine", options.name);
  }
  FOVEA_CHECK(options.num_time_steps > 0, "{} time steps; expected at least one",
              options.num_time_steps);
  betas_ = options.name == "linear" ? linear_betas(options) : cosine_betas(options.num_time_steps);
  double product = 1;
  for (const double beta : betas_) alpha_bars_.push_back(product *= 1 - beta);
}

NoiseSchedule::Scales NoiseSchedule::scales(const at::Tensor& images,
                                            const at::Tensor& timesteps) const {
  std::vector<int64_t> shape(static_cast<size_t>(images.dim()), 1);
  shape[0] = images.size(0);
  const auto table = kernels::host_values(alpha_bars_, images.device());
  const auto alpha_bar = table.index_select(0, timesteps.to(images.device())).view(shape);
  const auto like = [&](const at::Tensor& scale) { return scale.to(images.options()); };
  return {like(alpha_bar.sqrt()), like((1 - alpha_bar).sqrt())};
}

at::Tensor NoiseSchedule::add_noise(const at::Tensor& images, const at::Tensor& noise,
                                    const at::Tensor& timesteps) const {
  const auto scale = scales(images, timesteps);
  return scale.image * images + scale.noise * noise;
}

at::Tensor NoiseSchedule::target(PredictionType prediction, const at::Tensor& images,
                                 const at::Tensor& noise, const at::Tensor& timesteps) const {
  if (prediction == PredictionType::kEpsilon) return noise;
  if (prediction == PredictionType::kX0) return images;
  const auto scale = scales(images, timesteps);
  return scale.image * noise - scale.noise * images;
}

Denoised denoised(PredictionType prediction, const at::Tensor& output, const at::Tensor& noisy,
                  double alpha_bar) {
  const double image = std::sqrt(alpha_bar), noise = std::sqrt(1 - alpha_bar);
  switch (prediction) {
    case PredictionType::kEpsilon:
      return {(noisy - noise * output) / image, output};
    case PredictionType::kX0:
      return {output, (noisy - image * output) / noise};
    case PredictionType::kV:
      return {image * noisy - noise * output, image * output + noise * noisy};
  }
  fail("prediction {} is not in the table", static_cast<int>(prediction));
}

}  // namespace fovea::train
