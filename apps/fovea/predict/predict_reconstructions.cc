// Reconstructions of a masked autoencoder: what it saw of each input and what it made of it.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/models/mae.h"
#include "fovea/train/reconstruction_picture.h"
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
  at::Tensor seen, image;  // [C, H, W] or [C, D, H, W]; masked patches of `seen` are NaN
  double loss = 0;
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
  Restored restored{.seen = pictures.hidden.squeeze(0), .image = pictures.restored.squeeze(0)};
  restored.loss = parts.loss_sum.item<double>() / std::max(parts.weight, 1.0);
  restored.num_masked = std::llround(parts.weight);
  restored.num_patches = models::real_patches(batch.patches).sum().item<int64_t>();
  return restored;
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

// What `restored` is given as, in files whose names begin with `base`.
Reconstruction write_reconstruction(const std::string& input, const at::Tensor& image,
                                    const Restored& restored, const fs::path& base) {
  Reconstruction one{.input = input,
                     .loss = restored.loss,
                     .num_masked = restored.num_masked,
                     .num_patches = restored.num_patches,
                     .files = {}};
  fs::create_directories(base.parent_path());
  one.files.push_back(base.string() + ".png");
  write_png_file(one.files.back(),
                 train::side_by_side({image.squeeze(0), restored.seen, restored.image}));
  if (restored.image.dim() == 4) {
    one.files.push_back(base.string() + ".nii.gz");
    write_grid_volume(one.files.back(), restored.image);
  }
  return one;
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
  const auto all = open_predict_inputs(arguments.inputs, inference);
  UnreadableInputs unreadable(count_inputs(all), arguments.json);
  std::set<std::string> taken;
  int64_t number = 0;  // over all inputs: what the masks follow from
  for (const auto& inputs : all) {
    for (int64_t i = 0; i < inputs.size(); ++i, ++number) {
      std::optional<train::PreparedBatch> prepared;
      try {
        prepared = inference.prepare(inputs.samples, i, 1);
      } catch (const DataError& error) {
        unreadable.add(inputs.at(i).path, error);
        continue;
      }
      const auto& image = prepared->tensors.images;
      const auto restored = mae.takes_patches() ? restore(mae, task, prepared->tensors)
                                                : restore(mae, task, image, number);
      const auto base = folder / free_name(inputs.at(i).stem, taken);
      report_reconstruction(write_reconstruction(inputs.at(i).path, image, restored, base),
                            arguments.json);
    }
  }
  unreadable.finish();
}

}  // namespace fovea::app
