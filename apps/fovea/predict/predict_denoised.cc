// Images and volumes that a diffusion run takes noise away from.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/input_pixels.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/json.h"
#include "fovea/train/diffusion/noise_schedule.h"
#include "fovea/train/evaluate/patch_images.h"

namespace fovea::app {
namespace {

// A run's sampler, and what it makes of samples.
class Denoiser {
 public:
  Denoiser(const SampleArguments& samples, const train::Inference& inference)
      : inference_(inference),
        noise_level_(samples.noise_level),
        task_(*inference.config->task.get_if<train::DiffusionConfig>()),
        schedule_(task_.schedule_options()),
        request_(sample_request(samples, inference, task_, /*count=*/1, /*all_classes=*/false)) {}

  // Sample `index` as the model sees it, with noise, and without again: [C, sides] each.
  std::vector<at::Tensor> operator()(const std::shared_ptr<const data::Dataset>& samples,
                                     int64_t index) {
    const auto prepared = inference_.prepare(samples, index, 1);
    const auto& batch = prepared.tensors;
    const bool has_patches = inference_.model->takes_patches();
    request_.first = index;
    const auto redrawn = train::redraw(
        dynamic_cast<models::DiffusionVit&>(*inference_.model), schedule_,
        train::prediction_type_from_name(task_.prediction), request_,
        has_patches ? batch.patches.tokens : batch.images, noise_level_,
        at::TensorOptions().device(inference_.compute.device).dtype(inference_.compute.dtype),
        has_patches ? &batch.patches : nullptr);
    timestep_ = redrawn.timestep;
    const auto clean = batch.images.squeeze(0).to(at::kCPU, at::kFloat).clone();
    if (!has_patches) return {clean, redrawn.noisy.squeeze(0), redrawn.images.squeeze(0)};
    const auto put_back = [&](const at::Tensor& tokens) {
      return train::images_of_patches(tokens, batch.trees, batch.images.sizes().slice(2),
                                      /*is_tree_of_channel=*/true)
          .squeeze(0);
    };
    return {clean, put_back(redrawn.noisy), put_back(redrawn.images)};
  }

  int64_t timestep() const { return timestep_; }

 private:
  const train::Inference& inference_;
  double noise_level_;
  const train::DiffusionConfig& task_;
  train::NoiseSchedule schedule_;
  train::SampleRequest request_;
  int64_t timestep_ = 0;
};

}  // namespace

void predict_denoised(const PredictArguments& arguments, const train::Inference& inference) {
  Denoiser denoise(arguments.samples, inference);
  const std::filesystem::path folder = arguments.out.empty() ? "denoised" : arguments.out;
  std::set<std::string> taken;
  const auto all = open_predict_inputs(arguments.inputs, inference);
  for_each_input(all, arguments.json, [&](const PredictInputs& inputs, int64_t i) {
    const auto& input = inputs.at(i).path;
    const auto tiles = inference.cut(inputs.only(i));
    const auto pictures = tiles ? blend_pictures(*tiles, 0, inference, input,
                                                 [&](int64_t tile) { return denoise(tiles, tile); })
                                : denoise(inputs.samples, i);
    const auto files = write_pictures(folder, free_name(inputs.at(i).stem, taken), pictures,
                                      inputs.file(i), inference);
    const auto error = (pictures[2] - pictures[0]).square().mean().item<double>();
    if (arguments.json) {
      say_as_is("{}\n", json_text(nlohmann::json{{"input", input},
                                                 {"timestep", denoise.timestep()},
                                                 {"mean_square_error", error},
                                                 {"files", files}}));
      return;
    }
    say("{}\n  noise of time step {} added and taken away; mean square error {:.4f}; {}\n", input,
        denoise.timestep(), error, fmt::join(files, ", "));
  });
}

}  // namespace fovea::app
