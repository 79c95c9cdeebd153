// Samples of a diffusion run, and inputs that it takes noise away from.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "fovea/core/error.h"
#include "fovea/inference/on_pixels.h"
#include "fovea/inference/pass.h"
#include "fovea/inference/predictor.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/train/diffusion/noise_schedule.h"
#include "fovea/train/evaluate/patch_images.h"
#include "fovea/train/tasks/diffusion.h"

namespace fovea::inference {
namespace {

// Empty where the model knows no classes and none was asked for.
std::vector<int64_t> labels_of(const SampleOptions& options, int64_t num_classes, int64_t count) {
  std::vector<int64_t> labels;
  if (num_classes == 0 && !options.label) return labels;
  for (int64_t i = 0; i < count; ++i)
    labels.push_back(options.label ? *options.label : i % num_classes);
  return labels;
}

// all_classes: in turn, where none is named.
train::SampleRequest request_of(const SampleOptions& options, const train::Inference& inference,
                                const train::DiffusionConfig& task, int64_t count,
                                bool all_classes) {
  const auto num_classes = all_classes ? inference.model->num_classes() : 0;
  train::SampleRequest request{.count = count,
                               .seed = options.seed,
                               .classes = labels_of(options, num_classes, count),
                               .value_range = task.value_range,
                               .sampler = task.sampler,
                               .variables = inference.channels};
  if (options.sampler) request.sampler.kind = *options.sampler;
  // As many as training had, unless asked for fewer: ancestral sampling needs them.
  const bool is_other = options.sampler && *options.sampler != task.sampler.kind;
  if (is_other && *options.sampler == "ddpm") request.sampler.steps = task.num_time_steps;
  if (options.steps) request.sampler.steps = *options.steps;
  if (request.classes.empty()) request.sampler.guidance = 1;  // there is nothing to guide to
  if (options.guidance) request.sampler.guidance = *options.guidance;
  return request;
}

// A run's sampler, and what it makes of inputs.
class Denoiser {
 public:
  Denoiser(const SampleOptions& options, const train::Inference& inference)
      : inference_(inference),
        noise_level_(options.noise_level),
        task_(*inference.config->task.get_if<train::DiffusionConfig>()),
        schedule_(task_.schedule_options()),
        request_(request_of(options, inference, task_, /*count=*/1, /*all_classes=*/false)) {}

  // The input's sample as the model sees it, with noise, and without again.
  Denoised operator()(const OpenInput& input) const {
    const auto prepared = prepare(input, inference_);
    const auto& batch = prepared.tensors;
    const bool has_patches = inference_.model->takes_patches();
    auto request = request_;
    request.first = input.index;
    const auto redrawn = train::redraw(
        *inference_.model->as_denoiser(), schedule_,
        train::prediction_type_from_name(task_.prediction), request,
        train::input_of(*inference_.model, batch), noise_level_,
        at::TensorOptions().device(inference_.compute.device).dtype(inference_.compute.dtype));
    Denoised denoised{.input = batch.images.squeeze(0).to(at::kCPU, at::kFloat).clone(),
                      .noisy = redrawn.noisy.squeeze(0),
                      .image = redrawn.images.squeeze(0),
                      .timestep = redrawn.timestep};
    if (!has_patches) return denoised;
    const auto put_back = [&](const at::Tensor& tokens) {
      return train::images_of_patches(tokens, batch.trees, batch.images.sizes().slice(2),
                                      /*is_tree_of_channel=*/true)
          .squeeze(0);
    };
    denoised.noisy = put_back(redrawn.noisy);
    denoised.image = put_back(redrawn.images);
    return denoised;
  }

  // Tile by tile, put together again.
  Denoised of_tiles(const std::shared_ptr<const data::TiledDataset>& tiles,
                    const std::string& name) const {
    int64_t timestep = 0;
    const auto pictures = blend_pictures(*tiles, 0, inference_, name, [&](int64_t tile) {
      const auto one = (*this)({.samples = tiles, .index = tile, .name = name});
      timestep = one.timestep;
      return std::vector{one.input, one.noisy, one.image};
    });
    return {.input = pictures[0], .noisy = pictures[1], .image = pictures[2], .timestep = timestep};
  }

 private:
  const train::Inference& inference_;
  double noise_level_;
  const train::DiffusionConfig& task_;
  train::NoiseSchedule schedule_;
  train::SampleRequest request_;
};

}  // namespace

std::vector<Outcome<Denoised>> Predictor::denoised(const std::vector<Input>& inputs,
                                                   const SampleOptions& options) const {
  const at::NoGradGuard no_grad;
  expect(Kind::kSamples);
  const auto loaded = loaded_for(inputs);
  const Denoiser denoise(options, *loaded);
  return one_by_one<Denoised>(open_inputs(inputs, *loaded), [&](const OpenInput& input) {
    const auto tiles = input.samples ? loaded->cut(input.only()) : nullptr;
    auto one = tiles ? denoise.of_tiles(tiles, input.name) : denoise(input);
    one.mean_square_error = (one.image - one.input).square().mean().item<double>();
    return one;
  });
}

Samples Predictor::samples(const SampleOptions& options) const {
  const at::NoGradGuard no_grad;
  expect(Kind::kSamples);
  const auto& model = *loaded_->model->as_denoiser();
  if (model.takes_patches()) {
    fail<ConfigError>(
        "samples of a model of adaptive patches, which makes an image along a tree that only "
        "another image has; ask for denoised images, with noise_level 1");
  }
  const auto& task = *loaded_->config->task.get_if<train::DiffusionConfig>();
  Samples drawn;
  drawn.request = request_of(options, *loaded_, task, options.count, /*all_classes=*/true);
  const auto compute =
      at::TensorOptions().device(loaded_->compute.device).dtype(loaded_->compute.dtype);
  drawn.images = train::draw_samples(model, train::NoiseSchedule(task.schedule_options()),
                                     train::prediction_type_from_name(task.prediction),
                                     drawn.request, compute);
  return drawn;
}

}  // namespace fovea::inference
