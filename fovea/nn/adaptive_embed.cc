// B batch, C channels, L patches, S values of a patch, D embed_dim, d sides.
#include "fovea/nn/adaptive_embed.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/kernels/host_part.h"

namespace fovea::nn {
namespace {

constexpr NormOptions kPatchNorm = {.kind = NormKind::kLayerNorm, .eps = 1e-5};

at::Tensor on_device(const std::vector<double>& values, const at::TensorOptions& like) {
  return kernels::host_values(values, like.device()).to(like);
}

}  // namespace

AdaptivePatchEmbedImpl::AdaptivePatchEmbedImpl(int64_t patch_values, int64_t in_chans, int64_t dim,
                                               bool has_norms, at::Device device) {
  const int64_t width = patch_values * in_chans;
  if (has_norms) norm1_ = register_module("norm1", Norm(width, kPatchNorm, device));
  proj_ = register_module("proj", Linear(width, dim, /*has_bias=*/true, device));
  if (has_norms) norm2_ = register_module("norm2", Norm(dim, kPatchNorm, device));
}

at::Tensor AdaptivePatchEmbedImpl::forward(const at::Tensor& patches) const {
  return run([&] {
    const auto rows = patches.permute({0, 2, 3, 1}).flatten(2);  // [B, L, S * C]
    if (!norm1_) return proj_(rows);                             // [B, L, D]
    return norm2_(proj_(norm1_->for_linear(rows)));
  });
}

AdaptivePosEmbedImpl::AdaptivePosEmbedImpl(std::vector<int64_t> sides, bool in_pixels, int64_t dim,
                                           at::Device device)
    : sides_(std::move(sides)), in_pixels_(in_pixels) {
  fc_ = register_module(
      "fc", Linear(1 + static_cast<int64_t>(sides_.size()), dim, /*has_bias=*/true, device));
}

at::Tensor AdaptivePosEmbedImpl::forward(const at::Tensor& sizes, const at::Tensor& centers) const {
  FOVEA_CHECK(sizes.size(1) == 1 && centers.size(-1) == static_cast<int64_t>(sides_.size()),
              "position embedding of {} trees with {} sides; expected one tree and {} sides",
              sizes.size(1), centers.size(-1), sides_.size());
  return run([&] {
    auto where = at::cat({sizes.unsqueeze(-1), centers}, -1).squeeze(1);  // [B, L, 1 + d]
    if (!in_pixels_) {
      std::vector<double> scale = {
          1.0 / static_cast<double>(*std::max_element(sides_.begin(), sides_.end()))};
      for (const auto side : sides_) scale.push_back(1.0 / static_cast<double>(side));
      where = where * on_device(scale, where.options());
    }
    return at::gelu(fc_(where));  // [B, L, D]
  });
}

}  // namespace fovea::nn
