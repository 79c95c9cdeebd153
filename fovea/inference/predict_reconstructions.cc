// Reconstructions of a masked autoencoder: what it saw of each input and what it made of it.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <cmath>

#include "fovea/inference/on_pixels.h"
#include "fovea/inference/pass.h"
#include "fovea/inference/predictor.h"
#include "fovea/models/mae.h"
#include "fovea/train/tasks/adaptive_autoencoding.h"
#include "fovea/train/tasks/masked_autoencoding.h"

namespace fovea::inference {
namespace {

// A model and its task.
struct Autoencoder {
  const train::Inference& inference;
  const models::Mae& mae;
  train::MaskedAutoencodingConfig task;
};

Autoencoder autoencoder_of(const train::Inference& inference) {
  const train::MaskedAutoencodingConfig* task = nullptr;
  if (inference.config) task = inference.config->task.get_if<train::MaskedAutoencodingConfig>();
  return {inference, *inference.model->as_autoencoder(),
          task != nullptr ? *task : train::MaskedAutoencodingConfig()};
}

// Of a grid. input: [1, C, ...]; index: which input it is, from which its mask follows.
Reconstruction restore(const Autoencoder& of, const models::ModelInput& input, int64_t index) {
  const auto& mae = of.mae;
  const auto& image = input.images();
  const auto patch = mae.config().encoder.vit.patch_sides();
  const auto num_patches = mae.num_patches(image);
  const auto ids_keep =
      train::keep_patches_of_samples(mae.config(), at::arange(index, index + 1), num_patches);
  const auto predictions = mae.predict(input, {ids_keep}).to(at::kCPU);
  const auto mask = models::patch_mask(ids_keep, num_patches);
  const auto original = image.to(at::kCPU);
  const auto parts =
      train::autoencoding_loss(original, predictions, {mask}, patch,
                               {.norm_pix_loss = of.task.norm_pix_loss, .loss_on = "masked"});
  Reconstruction restored;
  restored.image =
      train::reconstruct(original, predictions, mask, patch, of.task.norm_pix_loss).squeeze(0);
  restored.seen = train::hide_patches(original, mask, patch).squeeze(0);
  restored.loss = parts.loss_sum.item<double>() / parts.weight;
  restored.num_masked = num_patches - ids_keep.size(1);
  restored.num_patches = num_patches;
  return restored;
}

// Of adaptive patches, through the tree. batch: one sample.
Reconstruction restore(const Autoencoder& of, const train::TensorBatch& batch) {
  const auto& mae = of.mae;
  const auto seen = train::see_patches_of_samples(mae.config(), batch.indices, batch.patches);
  const auto predictions = mae.predict(train::input_of(mae, batch), seen);
  auto masked = of.task;
  masked.loss_on = "masked";
  const auto parts = train::adaptive_autoencoding_loss(batch, predictions, seen, masked);
  const auto pictures = train::restore_adaptive(batch, predictions, seen, of.task.norm_pix_loss);
  Reconstruction restored;
  restored.seen = pictures.hidden.squeeze(0);
  restored.image = pictures.restored.squeeze(0);
  restored.loss = parts.loss_sum.item<double>() / std::max(parts.weight, 1.0);
  restored.num_masked = std::llround(parts.weight);
  restored.num_patches = models::real_patches(batch.patches).sum().item<int64_t>();
  return restored;
}

Reconstruction restore_input(const Autoencoder& of, const OpenInput& input, int64_t number) {
  const auto prepared = prepare(input, of.inference);
  auto restored = of.mae.takes_patches()
                      ? restore(of, prepared.tensors)
                      : restore(of, train::input_of(of.mae, prepared.tensors), number);
  restored.input = prepared.tensors.images.squeeze(0).to(at::kCPU).clone();
  return restored;
}

// Tile by tile of a volume, as the model was trained, and put together again.
Reconstruction restore_tiles(const Autoencoder& of,
                             const std::shared_ptr<const data::TiledDataset>& tiles,
                             const std::string& input) {
  Reconstruction whole;
  double loss_sum = 0;
  const auto pictures = blend_pictures(*tiles, 0, of.inference, input, [&](int64_t tile) {
    const auto one = restore_input(of, {.samples = tiles, .index = tile, .name = input}, tile);
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

}  // namespace

std::vector<Outcome<Reconstruction>> Predictor::reconstructions(const std::vector<Input>& inputs,
                                                                int64_t first) const {
  const at::NoGradGuard no_grad;
  expect(Kind::kReconstructions);
  const auto loaded = loaded_for(inputs);
  const auto of = autoencoder_of(*loaded);
  const auto opened = open_inputs(inputs, *loaded);
  return one_by_one<Reconstruction>(opened, [&](const OpenInput& input) {
    const auto tiles = input.samples ? loaded->cut(input.only()) : nullptr;
    return tiles ? restore_tiles(of, tiles, input.name)
                 : restore_input(of, input, first + (&input - opened.data()));
  });
}

}  // namespace fovea::inference
