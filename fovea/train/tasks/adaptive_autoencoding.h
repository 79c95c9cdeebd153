// Masked autoencoding of adaptive patches: what the task does where the model takes them.
#pragma once

#include "fovea/train/tasks/masked_autoencoding.h"

namespace fovea::train {

// B batch, C channels, L patches, S = p^d values of a channel of a patch, V = S * C in the order
// (S, C), T trees a sample.

// tokens: [B, C, L, S] -> targets [B, L, V], in float32 (float64 stays).
at::Tensor adaptive_targets(const at::Tensor& tokens, bool norm_pix_loss);
// rows: [B, L, V] -> [B, C, L, S].
at::Tensor tokens_of_rows(const at::Tensor& rows, int64_t channels);

// The patches that the encoder sees of this batch: in training drawn by step and row, else a
// function of the sample's index alone, as keep_patches_of_samples.
models::SeenPatches see_patches_of_samples(const models::MaeConfig& model,
                                           const at::Tensor& indices,
                                           const models::PatchInput& patches);

// The error of each patch, [B, L]: with loss_space tokens the mean square of predictions - targets
// over its values; with loss_space image as patch_errors_in_image. predictions: [B, L, V].
at::Tensor adaptive_patch_losses(const TensorBatch& batch, const at::Tensor& predictions,
                                 const MaskedAutoencodingConfig& config);
// Which patches count, [B, L]: config.loss_on and the samples' weights. Padding does not, but with
// loss_on: all_and_padding.
at::Tensor counted_adaptive_patches(const TensorBatch& batch, const models::SeenPatches& seen,
                                    const MaskedAutoencodingConfig& config);
// The losses of the patches that count, summed; the weight is their number. outputs: predictions.
LossParts adaptive_autoencoding_loss(const TensorBatch& batch, const at::Tensor& predictions,
                                     const models::SeenPatches& seen,
                                     const MaskedAutoencodingConfig& config);

// What the model makes of the images, put back through the trees: [B, C, sides] on the CPU.
struct AdaptivePictures {
  at::Tensor restored;  // masked leaves as predicted, the rest as it is
  at::Tensor hidden;    // NaN in masked leaves
};
AdaptivePictures restore_adaptive(const TensorBatch& batch, const at::Tensor& predictions,
                                  const models::SeenPatches& seen, bool norm_pix_loss);

}  // namespace fovea::train
