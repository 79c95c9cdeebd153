// Images and volumes cut into patches, and put together again.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::nn {

// B batch, C channels, N patches row by row over the grid, P sides of a patch (they may differ).

// The values of one patch in the order (P, P, C) or (P, P, P, C), channels last: that of the
// published MAE (He et al. 2022) and of whatever predicts pixels from tokens.
// images: [B, C, H, W] or [B, C, D, H, W] -> [B, N, P * P * C] or [B, N, P * P * P * C].
// Throws Error where a side is not a multiple of the patch's.
at::Tensor patchify(const at::Tensor& images, at::IntArrayRef patch_size);

// The way back: patches [B, N, P * P * C] -> images [B, C, H, W] of the sides img_size = [H, W] or
// [D, H, W]; C is what the width of a patch leaves. unpatchify(patchify(x, p), p, sides of x) == x.
// Throws Error where N or the width does not fit.
at::Tensor unpatchify(const at::Tensor& patches, at::IntArrayRef patch_size,
                      at::IntArrayRef img_size);

// The values of one patch in the order (C, P, P), channels first: that of a convolution's weight.
// images: as patchify -> [B, N, C * P * P].
at::Tensor unfold_patches(const at::Tensor& images, at::IntArrayRef patch_size);

}  // namespace fovea::nn
