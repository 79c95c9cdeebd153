// Adaptive patches into tokens, and where they lie into position embeddings (Zhang et al. 2024,
// UCF-VIT).
#pragma once

#include <c10/core/Device.h>

#include "fovea/nn/linear.h"
#include "fovea/nn/norm.h"

namespace fovea::nn {

// patches: [B, C, L, S], S values of each channel of a patch -> tokens [B, L, dim]: proj of the S *
// C values of a patch, in the order (S, C); with has_norms norm2(proj(norm1(.))), as UCF-VIT does.
// Its first norm takes away the mean of each patch. Parameters norm1 [S * C], proj [dim, S * C],
// norm2 [dim]; epsilon 1e-5.
class AdaptivePatchEmbedImpl : public UnitImpl {
 public:
  AdaptivePatchEmbedImpl(int64_t patch_values, int64_t in_chans, int64_t dim, bool has_norms,
                         at::Device device);
  at::Tensor forward(const at::Tensor& patches) const;

 private:
  Norm norm1_ = nullptr;
  Linear proj_ = nullptr;
  Norm norm2_ = nullptr;
};
using AdaptivePatchEmbed = UnitHolder<AdaptivePatchEmbedImpl>;

// sizes: [B, 1, L], centers: [B, 1, L, d], both in pixels -> [B, L, dim]: gelu(fc([size, x, y(,
// z)])), each over `sides` (the image's, in the order x, y, z; the size over the longest), or, with
// in_pixels, as they are: UCF-VIT's.
class AdaptivePosEmbedImpl : public UnitImpl {
 public:
  AdaptivePosEmbedImpl(std::vector<int64_t> sides, bool in_pixels, int64_t dim, at::Device device);
  at::Tensor forward(const at::Tensor& sizes, const at::Tensor& centers) const;

 private:
  std::vector<int64_t> sides_;
  bool in_pixels_;
  Linear fc_ = nullptr;
};
using AdaptivePosEmbed = UnitHolder<AdaptivePosEmbedImpl>;

}  // namespace fovea::nn
