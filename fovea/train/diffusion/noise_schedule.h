// How an image turns into noise: the forward process of a diffusion model and what is predicted
// about it. Ho, Jain and Abbeel 2020 ("Denoising diffusion probabilistic models", DDPM).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::train {

// What the model says of a noisy image x_t = sqrt(abar) x0 + sqrt(1 - abar) epsilon.
enum class PredictionType {
  kEpsilon,  // the noise
  kX0,       // the image
  kV,        // sqrt(abar) epsilon - sqrt(1 - abar) x0 (Salimans and Ho 2022)
};

// "epsilon", "x0" or "v". Throws ConfigError.
PredictionType prediction_type_from_name(const std::string& name);
std::vector<std::string> prediction_type_names();

struct NoiseScheduleOptions {
  // "linear": beta_t from beta_start to beta_end in equal steps;
  // "cosine": Nichol and Dhariwal 2021, equation 17, with s = 0.008 and beta below 0.999.
  std::string name = "linear";
  int64_t num_time_steps = 1000;
  double beta_start = 1e-4;
  double beta_end = 0.02;
};

// T time steps, 0 the least noisy. Numbers are float64; tensors in the dtype of their images.
class NoiseSchedule {
 public:
  // Throws ConfigError for an unknown name.
  explicit NoiseSchedule(const NoiseScheduleOptions& options);

  int64_t num_time_steps() const { return static_cast<int64_t>(alpha_bars_.size()); }
  double beta(int64_t t) const { return betas_[static_cast<size_t>(t)]; }
  // Product of 1 - beta up to t: the share of the image's variance that is left. t = -1: 1.
  double alpha_bar(int64_t t) const { return t < 0 ? 1.0 : alpha_bars_[static_cast<size_t>(t)]; }

  // images, noise: [B, ...], timesteps: [B] int64 in [0, T) -> x_t [B, ...]. This outlives a
  // recorded step in which it is called.
  at::Tensor add_noise(const at::Tensor& images, const at::Tensor& noise,
                       const at::Tensor& timesteps) const;
  // What a model with this kind of prediction is trained to give. Shapes as add_noise.
  at::Tensor target(PredictionType prediction, const at::Tensor& images, const at::Tensor& noise,
                    const at::Tensor& timesteps) const;

 private:
  struct Scales {
    at::Tensor image, noise;  // sqrt(abar) and sqrt(1 - abar), [B, 1, ...]
  };
  Scales scales(const at::Tensor& images, const at::Tensor& timesteps) const;

  std::vector<double> betas_;
  std::vector<double> alpha_bars_;
};

// Both ends of x_t, from what the model gave.
struct Denoised {
  at::Tensor image;    // x0
  at::Tensor epsilon;  // the noise
};

// output, noisy: [B, ...] of one time step with this alpha_bar, below 1.
Denoised denoised(PredictionType prediction, const at::Tensor& output, const at::Tensor& noisy,
                  double alpha_bar);

}  // namespace fovea::train
