// Images and volumes into tokens: one linear map of each patch.
#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "fovea/nn/norm.h"

namespace fovea::nn {

struct PatchEmbedOptions {
  std::vector<int64_t> patch_size;  // [P, P] or [P, P, P]; sides may differ
  int64_t in_chans = 3;
  int64_t dim = 0;
  bool has_bias = true;
  std::optional<NormOptions> norm = {};  // of the tokens
  // What happens to pixels beyond the last whole patch; with neither, such an image is an Error.
  bool crop_to_patches = false;  // dropped, as a strided convolution does
  bool pad_to_patches = false;   // the image is filled up with zeros
};

// images: [B, C, H, W] or [B, C, D, H, W] -> tokens [B, N, dim], row-major over the grid.
//
// A convolution with stride = kernel size is a product with the unfolded patches, done as one GEMM.
// The weight keeps the convolution's shape: proj.weight [dim, C, P, P] or [dim, C, P, P, P].
// Parameters beside it: proj.bias, norm.
class PatchEmbedImpl : public UnitImpl {
 public:
  PatchEmbedImpl(const PatchEmbedOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& images) const;
  // The same from patches: [B, N, C * P * P], values in the order of the weight (unfold_patches).
  at::Tensor forward_patches(const at::Tensor& patches) const;

  // Tokens along each side for an image of this size, e.g. [H, W] -> [h, w].
  std::vector<int64_t> grid_size(at::IntArrayRef img_size) const;

 private:
  at::Tensor fit(const at::Tensor& images) const;
  at::Tensor project(const at::Tensor& patches) const;

  PatchEmbedOptions options_;
  at::Tensor weight_;
  at::Tensor bias_;
  Norm norm_ = nullptr;
};
using PatchEmbed = UnitHolder<PatchEmbedImpl>;

}  // namespace fovea::nn
