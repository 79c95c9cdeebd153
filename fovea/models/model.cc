#include "fovea/models/model.h"

#include <ATen/core/grad_mode.h>

#include "fovea/core/error.h"
#include "fovea/nn/patchify.h"

namespace fovea::models {

void Model::init_weights(uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (const auto& item : named_parameters()) init_parameter(item.key(), item.value(), seed);
}

at::Tensor Model::forward_patches(const PatchInput& /*patches*/) {
  fail<ConfigError>(
      "the model takes images, not adaptive patches; leave data.adaptive_patching out, or set "
      "the model's patching: adaptive");
}

std::vector<int64_t> PackedImages::lengths() const {
  std::vector<int64_t> lengths;
  for (const auto& [height, width] : grids) lengths.push_back(height * width);
  return lengths;
}

PackedImages pack_images(const at::Tensor& images, int64_t patch_size) {
  const auto patches = nn::unfold_patches(images, {patch_size, patch_size});  // [B, N, C * P * P]
  return {.patches = patches.reshape({1, -1, patches.size(2)}),
          .grids = std::vector<std::array<int64_t, 2>>(
              static_cast<size_t>(images.size(0)),
              {images.size(2) / patch_size, images.size(3) / patch_size})};
}

at::Tensor Model::forward_packed(const PackedImages& /*images*/) {
  fail<ConfigError>(
      "the model takes images of one size, not packed ones; set the model's patching: packed");
}

at::Tensor Model::pooled_features(const at::Tensor& /*images*/) {
  fail<ConfigError>(
      "the model has no features of a whole sample; expected a classifier with a pooling other "
      "than "
      "'', or a model with an encoder");
}

at::Tensor Model::pooled_patch_features(const PatchInput& /*patches*/) {
  fail<ConfigError>(
      "the model has no features of a sample of adaptive patches; expected a classifier with a "
      "pooling other than '', or a model with an encoder, that takes them");
}

at::Tensor Model::pooled_packed_features(const PackedImages& /*images*/) {
  fail<ConfigError>(
      "the model has no features of a packed image; expected a classifier with patching: packed");
}

at::Tensor Model::classify(const at::Tensor& /*features*/) {
  fail<ConfigError>(
      "the model has no head that stands on features; expected a classifier such as vit");
}

}  // namespace fovea::models
