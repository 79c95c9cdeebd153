// What the model looks at in an input.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/inference/pass.h"
#include "fovea/inference/predictor.h"

namespace fovea::inference {
namespace {

// The pixels that the model sees: cropped and resized, not normalised. -> [C, H, W] in [0, 1].
at::Tensor seen_pixels(const train::Inference& inference, const data::Image& image) {
  data::TransformScratch scratch;
  const auto& transforms =
      std::get<std::shared_ptr<const data::TransformPipeline>>(inference.transforms);
  const auto view = transforms->apply_to_pixels(image, data::augmentation_stream(0, 0, 0), scratch);
  auto pixels = at::empty({view.height, view.width, view.channels}, at::kByte);
  auto* bytes = pixels.mutable_data_ptr<uint8_t>();
  const int64_t row_bytes = view.width * view.channels;
  for (int64_t y = 0; y < view.height; ++y) {
    std::copy_n(view.row(y), row_bytes, bytes + y * row_bytes);
  }
  return pixels.permute({2, 0, 1}).to(at::kFloat) / 255.0;
}

// Values to [0, 1], the smallest black and the largest white.
at::Tensor to_unit_range(const at::Tensor& values) {
  const auto low = values.min(), range = (values.max() - low).clamp_min(1e-12);
  return (values - low) / range;
}

at::Tensor displayed_values(const at::Tensor& images) {
  return to_unit_range(images.to(at::kCPU, at::kFloat)[0]);
}

// The tile in the middle along each axis.
int64_t middle_tile(const data::Tiling& tiling) {
  int64_t index = 0;
  for (const auto& axis : tiling.axes()) index = index * axis.count + axis.count / 2;
  return index;
}

// "tile 5 of 10, from [5, 0, 0]", counted from 0.
std::string part_of(const data::Tiling& tiling, int64_t tile) {
  return fmt::format("tile {} of {}, from [{}]", tile, tiling.count(),
                     fmt::join(tiling.tile(tile).start, ", "));
}

Attention attend(const train::Inference& inference, const train::TensorBatch& batch,
                 double noise_level) {
  Attention one{.attention = explained_attention(inference, batch, noise_level), .displayed = {}};
  const auto& seen = one.attention.seen;
  if (seen.defined()) one.displayed = displayed_values(seen);
  return one;
}

// One image, which is seen as a grid.
train::PreparedBatch only_image(const std::shared_ptr<const data::Dataset>& samples,
                                const train::Inference& inference) {
  train::PreparedBatch batch;
  batch.tensors.images =
      inference.preprocess(samples, 0, 1).to(inference.compute.device, inference.compute.dtype);
  batch.tensors.variables = inference.channels;
  return batch;
}

Attention attend_to_sample(const std::shared_ptr<const data::Dataset>& samples,
                           const train::Inference& inference, double noise_level) {
  if (const auto tiles = inference.cut(samples)) {
    const auto tile = middle_tile(tiles->tiling(0));
    const auto batch = inference.prepare(tiles, tile, 1);
    auto one = attend(inference, batch.tensors, noise_level);
    one.part = part_of(tiles->tiling(0), tile);
    if (!one.displayed.defined()) one.displayed = displayed_values(batch.tensors.images);
    return one;
  }
  const auto batch = inference.model->takes_packed() ? only_image(samples, inference)
                                                     : inference.prepare(samples, 0, 1);
  data::Sample sample;
  const bool is_image = samples->form() == data::SampleForm::kImage;
  if (is_image) read_decoded(*samples, 0, sample);
  auto one = attend(inference, batch.tensors, noise_level);
  if (one.displayed.defined()) return one;
  one.displayed =
      is_image ? seen_pixels(inference, sample.image()) : displayed_values(batch.tensors.images);
  return one;
}

}  // namespace

std::vector<Outcome<Attention>> Predictor::attention(const std::vector<Input>& inputs,
                                                     double noise_level) const {
  const at::NoGradGuard no_grad;
  const auto loaded = loaded_for(inputs);
  return one_by_one<Attention>(open_inputs(inputs, *loaded), [&](const OpenInput& input) {
    if (input.samples) return attend_to_sample(input.only(), *loaded, noise_level);
    const auto batch = prepare(input, *loaded);
    auto one = attend(*loaded, batch.tensors, noise_level);
    if (!one.displayed.defined()) one.displayed = displayed_values(input.tensor);
    return one;
  });
}

}  // namespace fovea::inference
