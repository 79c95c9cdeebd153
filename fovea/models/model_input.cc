#include "fovea/models/model_input.h"

#include "fovea/core/error.h"
#include "fovea/nn/patchify.h"

namespace fovea::models {

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

const at::Tensor& ModelInput::tensor() const {
  if (const auto* patches = std::get_if<PatchInput>(&values)) return patches->tokens;
  if (const auto* packed = std::get_if<PackedImages>(&values)) return packed->patches;
  return std::get<at::Tensor>(values);
}

ModelInput ModelInput::with_tensor(at::Tensor tensor) const {
  auto other = *this;
  if (auto* patches = std::get_if<PatchInput>(&other.values)) {
    patches->tokens = std::move(tensor);
  } else if (auto* packed = std::get_if<PackedImages>(&other.values)) {
    packed->patches = std::move(tensor);
  } else {
    other.values = std::move(tensor);
  }
  return other;
}

const at::Tensor& ModelInput::images() const {
  if (has_patches()) {
    fail<ConfigError>(
        "the model takes images, not adaptive patches; leave data.adaptive_patching out, or set "
        "the model's patching: adaptive");
  }
  if (is_packed()) {
    fail<ConfigError>(
        "the model takes images of one size, not packed ones; set the model's patching: packed");
  }
  return std::get<at::Tensor>(values);
}

const PatchInput& ModelInput::patches() const {
  if (!has_patches()) {
    fail<ConfigError>(
        "the model takes adaptive patches, but was given {}; set data.adaptive_patching",
        is_packed() ? "packed images" : "images");
  }
  return std::get<PatchInput>(values);
}

const PackedImages& ModelInput::packed() const {
  FOVEA_CHECK(is_packed(), "packed images are asked for of an input of another kind");
  return std::get<PackedImages>(values);
}

}  // namespace fovea::models
