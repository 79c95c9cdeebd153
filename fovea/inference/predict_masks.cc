// Masks of images and volumes. K classes; sides are H, W or D, H, W.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <span>

#include "fovea/inference/on_pixels.h"
#include "fovea/inference/pass.h"
#include "fovea/inference/predictor.h"
#include "fovea/inference/ready_input.h"
#include "fovea/train/evaluate/mask_picture.h"
#include "fovea/train/tasks/segmentation.h"

namespace fovea::inference {
namespace {

std::vector<int64_t> sides_of(const data::Sample& sample) {
  const auto size = sample.size();
  if (sample.is<data::Image>()) return {size.height, size.width};
  return {size.depth, size.height, size.width};
}

// Counts of each class, [K].
std::vector<int64_t> voxels_of_classes(const data::LabelMap& mask, int64_t num_classes) {
  std::vector<int64_t> counts(static_cast<size_t>(num_classes), 0);
  for (const auto label : mask.classes) ++counts[static_cast<size_t>(label)];
  return counts;
}

// -> [1, K, sides of the input] float32 on the CPU.
at::Tensor logits_of(const train::Inference& inference, const InputPasses& passes, int64_t pass,
                     const std::vector<int64_t>& sides, const std::string& input) {
  const auto batch = passes[pass];
  const auto logits =
      train::segment_whole(*inference.model, batch.tensors, sliding_window_of(inference));
  return on_input_pixels(logits.to(at::kCPU, at::kFloat), sides, inference, input);
}

// Slice by slice, or tile by tile of each, as the model was trained.
data::LabelMap mask_of_tiles(const train::Inference& inference, const InputPasses& passes,
                             const std::string& input) {
  const auto tiling = passes.tiles()->tiling(0);
  const auto size = tiling.sample_size();
  const std::vector<int64_t> sides = {tiling.tile_size().height, tiling.tile_size().width};
  data::LabelMap mask{size, std::vector<int32_t>(static_cast<size_t>(size.voxels()))};
  const auto rows = size.depth > 1 ? size.depth : size.height;
  const auto choose = [&](int64_t first, int64_t last, std::span<const float> values) {
    const auto row = size.voxels() / rows, count = (last - first) * row;
    const auto num_classes = static_cast<int64_t>(values.size()) / count;
    const auto classes =
        at::from_blob(const_cast<float*>(values.data()), {num_classes, count}, at::kFloat)
            .argmax(0);
    std::copy_n(classes.const_data_ptr<int64_t>(), count, mask.classes.begin() + first * row);
  };
  const auto predict = [&](int64_t tile) {
    return logits_of(inference, passes, tile, sides, input).squeeze(0);
  };
  blend_sample(*passes.tiles(), 0, predict, choose);
  return mask;
}

Mask mask_of(const OpenInput& input, const train::Inference& inference) {
  const InputPasses passes(input, inference);
  Mask mask;
  if (input.ready) {
    mask.sample = *input.ready->decoded;
  } else if (input.samples) {
    read_decoded(*input.samples, input.index, mask.sample);
  }
  mask.sides = input.samples ? sides_of(mask.sample) : input.tensor.sizes().slice(2).vec();
  if (passes.tiles()) {
    mask.classes = mask_of_tiles(inference, passes, input.name);
  } else {
    const auto logits = logits_of(inference, passes, 0, mask.sides, input.name);
    mask.classes = train::to_label_map(logits.argmax(1)[0]);  // [sides]
  }
  mask.voxels = voxels_of_classes(mask.classes, inference.model->num_classes());
  return mask;
}

}  // namespace

std::vector<Outcome<Mask>> Predictor::masks(const std::vector<Input>& inputs) const {
  const at::NoGradGuard no_grad;
  expect(Kind::kMasks);
  const auto loaded = loaded_for(inputs);
  return one_by_one<Mask>(open_inputs(inputs, *loaded),
                          [&](const OpenInput& input) { return mask_of(input, *loaded); });
}

}  // namespace fovea::inference
