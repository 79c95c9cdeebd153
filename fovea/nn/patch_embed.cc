// B batch, C channels, P patch side, S image side, G grid side (S = G * P), N tokens.
#include "fovea/nn/patch_embed.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/nn/patchify.h"

namespace fovea::nn {

PatchEmbedImpl::PatchEmbedImpl(const PatchEmbedOptions& options, at::Device device)
    : options_(options) {
  const auto tensor_options = at::TensorOptions().dtype(at::kFloat).device(device);
  std::vector<int64_t> shape = {options.dim, options.in_chans};
  shape.insert(shape.end(), options.patch_size.begin(), options.patch_size.end());
  // A submodule of its own, so that the names are those of timm's convolution.
  const auto proj = register_module("proj", std::make_shared<torch::nn::Module>());
  weight_ = proj->register_parameter("weight", at::empty(shape, tensor_options));
  if (options.has_bias) {
    bias_ = proj->register_parameter("bias", at::empty({options.dim}, tensor_options));
  }
  if (options.norm) norm_ = register_module("norm", Norm(options.dim, *options.norm, device));
}

std::vector<int64_t> PatchEmbedImpl::grid_size(at::IntArrayRef img_size) const {
  std::vector<int64_t> grid(img_size.begin(), img_size.end());
  for (size_t i = 0; i < grid.size(); ++i) {
    const auto patch = options_.patch_size[i];
    grid[i] = options_.pad_to_patches ? (grid[i] + patch - 1) / patch : grid[i] / patch;
  }
  return grid;
}

at::Tensor PatchEmbedImpl::fit(const at::Tensor& images) const {
  const auto& patch = options_.patch_size;
  const auto num_sides = static_cast<int64_t>(patch.size());
  FOVEA_CHECK(images.dim() == num_sides + 2 && images.size(1) == options_.in_chans,
              "images of shape [{}]; expected [B, {}, {} sides]", fmt::join(images.sizes(), ", "),
              options_.in_chans, num_sides);
  auto fitted = images;
  std::vector<int64_t> padding(2 * num_sides, 0);  // libtorch counts from the last side
  for (int64_t i = 0; i < num_sides; ++i) {
    const auto rest = fitted.size(i + 2) % patch[i];
    if (rest == 0) continue;
    FOVEA_CHECK(options_.crop_to_patches || options_.pad_to_patches,
                "an image side of {} pixels does not divide into patches of {}; resize the images "
                "to a multiple of {}, or change patch_size",
                fitted.size(i + 2), patch[i], patch[i]);
    if (options_.pad_to_patches) {
      padding[2 * (num_sides - 1 - i) + 1] = patch[i] - rest;
    } else {
      fitted = fitted.narrow(i + 2, 0, fitted.size(i + 2) - rest);
    }
  }
  return options_.pad_to_patches ? at::constant_pad_nd(fitted, padding) : fitted;
}

at::Tensor PatchEmbedImpl::forward(const at::Tensor& images) const {
  return run([&] { return project(unfold_patches(fit(images), options_.patch_size)); });
}

at::Tensor PatchEmbedImpl::forward_patches(const at::Tensor& patches) const {
  return run([&] { return project(patches); });
}

// [B, N, C * P * P] -> [B, N, dim].
at::Tensor PatchEmbedImpl::project(const at::Tensor& patches) const {
  const auto tokens = kernels::linear(patches, weight_.flatten(1), bias_);
  return norm_ ? norm_(tokens) : tokens;
}

}  // namespace fovea::nn
