// Reconstructions of a masked autoencoder: what it saw of each input and what it made of it.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/input_pixels.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/models/mae.h"
#include "fovea/train/evaluate/reconstruction_picture.h"
#include "fovea/train/tasks/adaptive_autoencoding.h"
#include "fovea/train/tasks/masked_autoencoding.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct Reconstruction {
  std::string input;
  double loss = 0;  // of the masked patches
  int64_t num_masked = 0, num_patches = 0;
  std::vector<std::string> files;
};

struct Restored {
  // [C, H, W] or [C, D, H, W]; masked patches of `seen` are NaN
  at::Tensor input, seen, image;
  double loss = 0;  // mean over the masked patches
  int64_t num_masked = 0, num_patches = 0;
};

// Of a grid. image: [1, C, ...]; index: which input it is, from which its mask follows.
Restored restore(models::Mae& mae, const train::MaskedAutoencodingConfig& task,
                 const at::Tensor& image, int64_t index) {
  const auto patch = mae.config().encoder.vit.patch_sides();
  const auto num_patches = mae.num_patches(image);
  const auto ids_keep =
      train::keep_patches_of_samples(mae.config(), at::arange(index, index + 1), num_patches);
  const auto predictions = mae.predict(image, ids_keep).to(at::kCPU);
  const auto mask = models::patch_mask(ids_keep, num_patches);
  const auto original = image.to(at::kCPU);
  const auto parts =
      train::autoencoding_loss(original, predictions, {mask}, patch,
                               {.norm_pix_loss = task.norm_pix_loss, .loss_on = "masked"});
  Restored restored;
  restored.image =
      train::reconstruct(original, predictions, mask, patch, task.norm_pix_loss).squeeze(0);
  restored.seen = train::hide_patches(original, mask, patch).squeeze(0);
  restored.loss = parts.loss_sum.item<double>() / parts.weight;
  restored.num_masked = num_patches - ids_keep.size(1);
  restored.num_patches = num_patches;
  return restored;
}

// Of adaptive patches, through the tree. batch: one sample.
Restored restore(models::Mae& mae, const train::MaskedAutoencodingConfig& task,
                 const train::TensorBatch& batch) {
  const auto seen = train::see_patches_of_samples(mae.config(), batch.indices, batch.patches);
  const auto predictions = mae.predict(batch.patches, seen);
  auto masked = task;
  masked.loss_on = "masked";
  const auto parts = train::adaptive_autoencoding_loss(batch, predictions, seen, masked);
  const auto pictures = train::restore_adaptive(batch, predictions, seen, task.norm_pix_loss);
  Restored restored;
  restored.seen = pictures.hidden.squeeze(0);
  restored.image = pictures.restored.squeeze(0);
  restored.loss = parts.loss_sum.item<double>() / std::max(parts.weight, 1.0);
  restored.num_masked = std::llround(parts.weight);
  restored.num_patches = models::real_patches(batch.patches).sum().item<int64_t>();
  return restored;
}

Restored restore_sample(models::Mae& mae, const train::MaskedAutoencodingConfig& task,
                        const train::Inference& inference,
                        const std::shared_ptr<const data::Dataset>& samples, int64_t index,
                        int64_t number) {
  const auto prepared = inference.prepare(samples, index, 1);
  auto restored = mae.takes_patches() ? restore(mae, task, prepared.tensors)
                                      : restore(mae, task, prepared.tensors.images, number);
  restored.input = prepared.tensors.images.squeeze(0).to(at::kCPU).clone();
  return restored;
}

// Tile by tile of a volume, as the model was trained, and put together again.
Restored restore_tiles(models::Mae& mae, const train::MaskedAutoencodingConfig& task,
                       const train::Inference& inference,
                       const std::shared_ptr<const data::TiledDataset>& tiles, int64_t sample,
                       const std::string& input) {
  Restored whole;
  double loss_sum = 0;
  const auto pictures = blend_pictures(*tiles, sample, inference, input, [&](int64_t tile) {
    const auto one = restore_sample(mae, task, inference, tiles, tile, tile);
    loss_sum += one.loss * static_cast<double>(one.num_masked);
    whole.num_masked += one.num_masked;
    whole.num_patches += one.num_patches;
    return std::vector{one.input, one.seen, one.image};
  });
  whole.loss = loss_sum / static_cast<double>(std::max<int64_t>(1, whole.num_masked));
  whole.input = pictures[0];
  whole.seen = pictures[1];
  whole.image = pictures[2];
  return whole;
}

void report_reconstruction(const Reconstruction& one, bool json) {
  if (json) {
    say_as_is("{}\n", json_text(nlohmann::json{{"input", one.input},
                                               {"loss", one.loss},
                                               {"num_masked", one.num_masked},
                                               {"num_patches", one.num_patches},
                                               {"files", one.files}}));
    return;
  }
  say("{}\n  loss {:.4f}, {} of {} patches masked; {}\n", one.input, one.loss, one.num_masked,
      one.num_patches, fmt::join(one.files, ", "));
}

}  // namespace

void predict_reconstructions(const PredictArguments& arguments, const train::Inference& inference) {
  const at::NoGradGuard no_grad;
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  auto& mae = dynamic_cast<models::Mae&>(*inference.model);
  const auto& task = *inference.config->task.get_if<train::MaskedAutoencodingConfig>();
  const fs::path folder = arguments.out.empty() ? "reconstructions" : arguments.out;
  std::set<std::string> taken;
  int64_t number =
      0;  // over all inputs: what the mask of one that is no volume of tiles follows from
  const auto all = open_predict_inputs(arguments.inputs, inference);
  for_each_input(all, arguments.json, [&](const PredictInputs& inputs, int64_t i) {
    const auto& input = inputs.at(i).path;
    const int64_t own_number = number++;
    const auto tiles = inference.cut(inputs.only(i));
    const auto restored = tiles
                              ? restore_tiles(mae, task, inference, tiles, 0, input)
                              : restore_sample(mae, task, inference, inputs.samples, i, own_number);
    Reconstruction one{.input = input,
                       .loss = restored.loss,
                       .num_masked = restored.num_masked,
                       .num_patches = restored.num_patches,
                       .files = {}};
    one.files =
        write_pictures(folder, free_name(inputs.at(i).stem, taken),
                       {restored.input, restored.seen, restored.image}, inputs.file(i), inference);
    report_reconstruction(one, arguments.json);
  });
}

}  // namespace fovea::app
