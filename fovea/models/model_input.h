// What models are given.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace fovea::models {

// Adaptive patches of a batch (fovea/data/adaptive): what a model takes in place of images where
// takes_patches().
struct PatchInput {
  at::Tensor tokens;   // [B, C, L, p^d], in the dtype of the activations
  at::Tensor sizes;    // [B, T, L] longest side of each patch's leaf, in pixels
  at::Tensor centers;  // [B, T, L, d] x, y(, z), in pixels
  at::Tensor padding;  // [B, T, L] bool: no leaf, nothing to attend to
  // [B, C, sides] that the patches were cut from, for models that go back to them; undefined: the
  // model is none (Model::wants_images_of_patches).
  at::Tensor images = {};
  // [B, T, L, 2, d] int64 on the CPU: first pixel and sides of each leaf, in the order of the
  // images' sides; padding: zeros.
  at::Tensor boxes = {};
  // In place of boxes, where a graph of operations is to say it all: [B, G, L] which share of the
  // pixels of each cell of the model's grid lies in each leaf.
  at::Tensor leaf_shares = {};
  // Whether a place of some sample holds no patch in any of its trees, where whoever made this
  // knows; without it a model looks at `padding`, and the host waits for a GPU.
  std::optional<bool> has_padding = {};
};

// Images of mixed sizes as one sequence of patches, image after image (Dehghani et al. 2023,
// NaViT): what a model takes beside images where takes_packed().
struct PackedImages {
  // [1, T, C * P * P], in the dtype of the activations; each image's row by row over its grid, the
  // values of a patch in the order (C, P, P).
  at::Tensor patches;
  // [B] rows and columns of patches; T is the sum of their products.
  std::vector<std::array<int64_t, 2>> grids;

  // Patches of each image.
  std::vector<int64_t> lengths() const;
};

// [B, C, H, W] of one size, as a pack. Throws Error where a side is not a multiple of the patch's.
PackedImages pack_images(const at::Tensor& images, int64_t patch_size);

// One of these, and which variables its channels are.
struct ModelInput {
  // Implicit: what there is one of is given as it is.
  ModelInput(at::Tensor images, std::vector<std::string> names = {})  // NOLINT
      : values(std::move(images)), channels(std::move(names)) {}
  ModelInput(PatchInput patches, std::vector<std::string> names = {})  // NOLINT
      : values(std::move(patches)), channels(std::move(names)) {}
  ModelInput(PackedImages images) : values(std::move(images)) {}  // NOLINT

  std::variant<at::Tensor, PatchInput, PackedImages> values;
  // Names of Model::variables(), in the order of the channels; empty: all of them in their order,
  // of a model of single channels the first. A model without variables does not look at them.
  std::vector<std::string> channels;

  bool has_patches() const { return std::holds_alternative<PatchInput>(values); }
  bool is_packed() const { return std::holds_alternative<PackedImages>(values); }
  // What holds the values of whichever it is, and the same with other values.
  const at::Tensor& tensor() const;
  ModelInput with_tensor(at::Tensor tensor) const;
  // For a model that takes these alone. Throw ConfigError, saying what to set, for another kind.
  const at::Tensor& images() const;
  const PatchInput& patches() const;
  const PackedImages& packed() const;
};

}  // namespace fovea::models
