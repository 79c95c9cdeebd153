// B batch.
#include "fovea/train/diffusion/sampler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/train/diffusion/row_draws.h"

namespace fovea::train {
namespace {

// A pass of the model over one batch, guided where asked.
class Guided {
 public:
  // like: what is denoised is of its kind, of its channels and patches.
  Guided(const models::DiffusionVit& model, double guidance, at::Tensor classes,
         const at::TensorOptions& options, models::ModelInput like)
      : model_(model),
        guidance_(guidance),
        classes_(std::move(classes)),
        options_(options),
        like_(std::move(like)) {}

  // noisy: [B, ...] float32 on the CPU -> the model's output, so too.
  at::Tensor operator()(const at::Tensor& noisy, int64_t timestep) const {
    const bool is_guided = classes_.defined() && guidance_ != 1.0;
    auto images = noisy.to(options_);
    auto classes = classes_;
    if (is_guided) {
      images = at::cat({images, images}, 0);  // [2 B, ...]: with and without
      classes = at::cat({classes, at::full_like(classes, model_.num_classes())}, 0);
    }
    const auto steps =
        at::full({images.size(0)}, timestep, options_.dtype(at::kLong));  // [B] or [2 B]
    const auto output =
        model_.denoise(input_of(images, is_guided), steps, classes).to(at::kCPU, at::kFloat);
    if (!is_guided) return output;
    const auto halves = output.chunk(2, 0);
    return halves[1] + guidance_ * (halves[0] - halves[1]);
  }

 private:
  // values: of the batch, or with is_twice of two of it.
  models::ModelInput input_of(const at::Tensor& values, bool is_twice) const {
    auto input = like_.with_tensor(values);
    if (auto* patches = std::get_if<models::PatchInput>(&input.values)) {
      for (auto* part : {&patches->sizes, &patches->centers, &patches->padding}) {
        *part = part->to(values.device());
        if (is_twice) *part = at::cat({*part, *part}, 0);
      }
    }
    return input;
  }

  const models::DiffusionVit& model_;
  double guidance_;
  at::Tensor classes_;  // [B] int64, or undefined
  at::TensorOptions options_;
  models::ModelInput like_;
};

void check_request(const models::DiffusionVit& model, const SampleRequest& request) {
  FOVEA_CHECK(request.count >= 0 && request.batch_size > 0, "{} samples in batches of {}",
              request.count, request.batch_size);
  const auto& classes = request.classes;
  if (classes.empty()) {
    if (request.sampler.guidance == 1.0) return;
    fail<ConfigError>(
        "guidance {} without a class; name the class of the samples, or leave it at 1",
        request.sampler.guidance);
  }
  FOVEA_CHECK(static_cast<int64_t>(classes.size()) == request.count,
              "{} classes for {} samples; expected one for each", classes.size(), request.count);
  const auto [low, high] = std::minmax_element(classes.begin(), classes.end());
  if (*low < 0 || *high >= model.num_classes()) {
    fail<ConfigError>(
        "samples of class {}; expected {}", *low < 0 ? *low : *high,
        model.num_classes() == 0
            ? std::string("none: the model was trained without classes (model.num_classes: 0)")
            : fmt::format("0 to {}", model.num_classes() - 1));
  }
}

// Standard normals that the samples `rows` start from. -> [B, sides]
at::Tensor initial_noise(const SampleRequest& request, const at::Tensor& rows,
                         at::IntArrayRef sides) {
  return normal_rows({philox_key(request.seed, "diffusion.sample.initial"), 0, rows}, sides);
}

// x: [B, ...], noisy as timesteps[first] has it; rows: [B] int64.
at::Tensor denoise_from(const Guided& model, const NoiseSchedule& schedule,
                        PredictionType prediction, const SampleRequest& request,
                        const at::Tensor& rows, at::Tensor x, size_t first,
                        const std::function<void()>& on_pass) {
  const auto& sampler = request.sampler;
  const bool is_ddim = sampler.kind == "ddim";
  const auto on_the_way = philox_key(request.seed, "diffusion.sample.step");
  const auto timesteps =
      sampling_timesteps(schedule.num_time_steps(), sampler.steps, sampler.spacing);
  const auto sides = x.sizes().slice(1).vec();
  for (size_t i = first; i < timesteps.size(); ++i) {
    const auto t = timesteps[i];
    const bool is_last = i + 1 == timesteps.size();
    const AlphaBars alpha_bars{schedule.alpha_bar(t),
                               is_last ? 1.0 : schedule.alpha_bar(timesteps[i + 1])};
    auto ends = denoised(prediction, model(x, t), x, alpha_bars.now);
    if (sampler.clip) ends.image = ends.image.clamp(-request.value_range, request.value_range);
    at::Tensor noise;
    if (!is_last && (!is_ddim || sampler.eta > 0)) {
      noise = normal_rows({on_the_way, static_cast<uint32_t>(t), rows}, sides);
    }
    x = is_ddim ? ddim_step(ends, alpha_bars, is_last ? 0.0 : sampler.eta, noise)
                : ddpm_step(ends.image, x, alpha_bars, sampler.variance == "large", noise);
    if (on_pass) on_pass();
  }
  return x;
}

}  // namespace

std::vector<int64_t> sampling_timesteps(int64_t num_time_steps, int64_t steps,
                                        const std::string& spacing) {
  if (steps < 1 || steps > num_time_steps) {
    fail<ConfigError>("{} sampling steps of {} time steps; expected 1 to {}", steps, num_time_steps,
                      num_time_steps);
  }
  std::vector<int64_t> timesteps;
  if (spacing == "leading") {
    const int64_t stride = num_time_steps / steps;
    for (int64_t i = steps - 1; i >= 0; --i) timesteps.push_back(i * stride);
  } else if (spacing == "trailing") {
    const double stride = static_cast<double>(num_time_steps) / static_cast<double>(steps);
    for (int64_t i = 0; i < steps; ++i) {
      const double place = static_cast<double>(num_time_steps) - static_cast<double>(i) * stride;
      timesteps.push_back(static_cast<int64_t>(std::nearbyint(place)) - 1);
    }
  } else {
    fail<ConfigError>("spacing '{}' is unknown; expected trailing or leading", spacing);
  }
  return timesteps;
}

at::Tensor ddim_step(const Denoised& ends, const AlphaBars& alpha_bars, double eta,
                     const at::Tensor& noise) {
  const auto [now, previous] = alpha_bars;
  const double sigma = eta * std::sqrt((1 - previous) / (1 - now)) * std::sqrt(1 - now / previous);
  const double direction = std::sqrt(std::max(0.0, 1 - previous - sigma * sigma));
  const auto x = std::sqrt(previous) * ends.image + direction * ends.epsilon;
  return sigma > 0 ? x + sigma * noise : x;
}

at::Tensor ddpm_step(const at::Tensor& image, const at::Tensor& noisy, const AlphaBars& alpha_bars,
                     bool is_large, const at::Tensor& noise) {
  const auto [now, previous] = alpha_bars;
  const double alpha = now / previous, beta = 1 - alpha;
  const auto mean = (std::sqrt(previous) * beta / (1 - now)) * image +
                    (std::sqrt(alpha) * (1 - previous) / (1 - now)) * noisy;
  if (!noise.defined()) return mean;
  const double variance = is_large ? beta : (1 - previous) / (1 - now) * beta;
  return mean + std::sqrt(variance) * noise;
}

at::Tensor draw_samples(const models::DiffusionVit& model, const NoiseSchedule& schedule,
                        PredictionType prediction, const SampleRequest& request,
                        const at::TensorOptions& images,
                        const std::function<void(int64_t, int64_t)>& on_pass) {
  const at::NoGradGuard no_grad;
  FOVEA_CHECK(!model.is_training(), "samples are drawn from a model in evaluation mode");
  check_request(model, request);
  const auto spec = model.input_spec();
  const auto& channels = request.variables;  // none named: all
  std::vector<int64_t> sides = {channels.empty() ? spec.in_chans
                                                 : static_cast<int64_t>(channels.size())};
  sides.insert(sides.end(), spec.img_size.begin(), spec.img_size.end());
  const int64_t batches = (request.count + request.batch_size - 1) / request.batch_size;
  const int64_t total = batches * request.sampler.steps;
  int64_t done = 0;
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < request.count; begin += request.batch_size) {
    const int64_t end = std::min(request.count, begin + request.batch_size);
    const auto rows = at::arange(request.first + begin, request.first + end, at::kLong);
    at::Tensor classes;
    if (!request.classes.empty()) {
      classes = at::tensor(request.classes, at::kLong).narrow(0, begin, end - begin);
      classes = classes.to(images.device());
    }
    const Guided guided(model, request.sampler.guidance, classes, images, {at::Tensor(), channels});
    parts.push_back(denoise_from(guided, schedule, prediction, request, rows,
                                 initial_noise(request, rows, sides), 0, [&] {
                                   done += 1;
                                   if (on_pass) on_pass(done, total);
                                 }));
  }
  sides.insert(sides.begin(), 0);
  return parts.empty() ? at::empty(sides, at::kFloat) : at::cat(parts, 0);
}

size_t first_timestep(const std::vector<int64_t>& timesteps, int64_t num_time_steps,
                      double noise_level) {
  if (!(noise_level >= 0 && noise_level <= 1)) {
    fail<ConfigError>("a noise level of {}; expected a share from 0 (none) to 1 (noise alone)",
                      noise_level);
  }
  const double wanted = noise_level * static_cast<double>(num_time_steps - 1);
  size_t first = 0;
  while (first + 1 < timesteps.size() && static_cast<double>(timesteps[first]) > wanted) ++first;
  return first;
}

Redrawn redraw(const models::DiffusionVit& model, const NoiseSchedule& schedule,
               PredictionType prediction, const SampleRequest& request,
               const models::ModelInput& images, double noise_level,
               const at::TensorOptions& options) {
  const at::NoGradGuard no_grad;
  FOVEA_CHECK(!model.is_training(), "images are redrawn by a model in evaluation mode");
  check_request(model, request);
  const auto timesteps =
      sampling_timesteps(schedule.num_time_steps(), request.sampler.steps, request.sampler.spacing);
  const auto first = first_timestep(timesteps, schedule.num_time_steps(), noise_level);
  const auto clean = images.tensor().to(at::kCPU, at::kFloat);
  const auto rows = at::arange(request.first, request.first + clean.size(0), at::kLong);
  Redrawn redrawn{.timestep = timesteps[first], .noisy = {}, .images = {}};
  redrawn.noisy = schedule.add_noise(clean, initial_noise(request, rows, clean.sizes().slice(1)),
                                     at::full({clean.size(0)}, redrawn.timestep, at::kLong));
  at::Tensor classes;
  if (!request.classes.empty()) {
    classes = at::tensor(request.classes, at::kLong).to(options.device());
  }
  const Guided guided(model, request.sampler.guidance, classes, options, images);
  redrawn.images = denoise_from(guided, schedule, prediction, request, rows, redrawn.noisy, first,
                                /*on_pass=*/{});
  return redrawn;
}

}  // namespace fovea::train
