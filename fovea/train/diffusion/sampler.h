// From noise to images: ancestral sampling (DDPM, Ho et al. 2020) and DDIM (Song, Meng and Ermon
// 2021), with classifier-free guidance (Ho and Salimans 2022).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/models/diffusion_vit.h"
#include "fovea/train/diffusion/noise_schedule.h"
#include "fovea/train/diffusion/sampler_config.h"

namespace fovea::train {

// `steps` of num_time_steps, falling, as Hugging Face's schedulers space them: "trailing" starts at
// the last one, "leading" ends at 0. Throws ConfigError: more steps than there are, or another
// name.
std::vector<int64_t> sampling_timesteps(int64_t num_time_steps, int64_t steps,
                                        const std::string& spacing);

// What a step goes from and to; previous is 1 at the last one.
struct AlphaBars {
  double now = 0;
  double previous = 1;
};

// One step of DDIM, equation 12 with sigma of equation 16. ends: as denoised gives them, the image
// clipped or not; noise: standard normals, unused at eta 0. All [B, ...].
at::Tensor ddim_step(const Denoised& ends, const AlphaBars& alpha_bars, double eta,
                     const at::Tensor& noise);

// One step of DDPM, equations 6 and 7, also where time steps are left out. noise: undefined at the
// last step. is_large: the variance is beta instead of the posterior's.
at::Tensor ddpm_step(const at::Tensor& image, const at::Tensor& noisy, const AlphaBars& alpha_bars,
                     bool is_large, const at::Tensor& noise);

struct SampleRequest {
  // Samples first ... first + count - 1 of the endless series that the seed stands for.
  int64_t first = 0;
  int64_t count = 16;
  uint64_t seed = 0;
  std::vector<int64_t> classes = {};  // one for each, or none at all: without classes
  int64_t batch_size = 64;
  double value_range = 1.0;  // images are within [-value_range, value_range]
  SamplerConfig sampler = {};
  std::vector<std::string> variables = {};  // see models::ModelInput::channels
};

// -> [count, C, H, W] or [count, C, D, H, W] float32 on the CPU, without a graph. Sample i is a
// function of seed and first + i alone, up to rounding: any batch size gives the same. The model is
// in evaluation mode; images: options (device, dtype) that it computes in. on_pass(done, total)
// after each pass of the model. Throws ConfigError: classes or guidance that the model cannot give.
at::Tensor draw_samples(const models::DiffusionVit& model, const NoiseSchedule& schedule,
                        PredictionType prediction, const SampleRequest& request,
                        const at::TensorOptions& images,
                        const std::function<void(int64_t, int64_t)>& on_pass = {});

// Images to which noise was added, and what the sampler makes of them.
struct Redrawn {
  int64_t timestep = 0;      // whose noise was added
  at::Tensor noisy, images;  // [B, C, sides] float32 on the CPU
};

// The step of the sampler's that is nearest to `noise_level` of all of them from below, 0 the least
// noisy and 1 the most. Throws ConfigError: not in [0, 1].
size_t first_timestep(const std::vector<int64_t>& timesteps, int64_t num_time_steps,
                      double noise_level);

// Noise of that time step is added to `images` [B, C, sides] and taken away again by the sampler's
// steps from there on (SDEdit, Meng et al. 2022). Image i gets the noise of sample
// request.first + i; request.count is B. Of adaptive patches: their values. Otherwise as
// draw_samples.
Redrawn redraw(const models::DiffusionVit& model, const NoiseSchedule& schedule,
               PredictionType prediction, const SampleRequest& request,
               const models::ModelInput& images, double noise_level,
               const at::TensorOptions& options);

}  // namespace fovea::train
