// B batch, C channels, L patches, S = p^d values of a channel of a patch, V = S * C, T trees.
#include "fovea/train/tasks/adaptive_autoencoding.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/train/evaluate/patch_images.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {
namespace {

at::Tensor in_sum_dtype(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

// [B, L, S * C]
at::Tensor rows_of_tokens(const at::Tensor& tokens) {
  return in_sum_dtype(tokens).permute({0, 2, 3, 1}).flatten(2);
}

// Of a tree for each channel a patch may have a leaf in some channels only: 1 where a value has
// one, [B, L, V]; undefined where there is one tree for all.
at::Tensor values_with_leaf(const models::PatchInput& patches) {
  if (patches.padding.size(1) == 1) return {};
  const auto has_leaf = patches.padding.logical_not().transpose(1, 2).to(at::kFloat);  // [B, L, C]
  return has_leaf.unsqueeze(2).expand({-1, -1, patches.tokens.size(3), -1}).flatten(2);
}

}  // namespace

at::Tensor adaptive_targets(const at::Tensor& tokens, bool norm_pix_loss) {
  const auto rows = rows_of_tokens(tokens);  // [B, L, V]
  if (!norm_pix_loss) return rows;
  const auto moments = patch_moments(rows);
  return (rows - moments.mean) / moments.deviation;
}

at::Tensor tokens_of_rows(const at::Tensor& rows, int64_t channels) {
  return rows.unflatten(-1, {-1, channels}).permute({0, 3, 1, 2});
}

models::SeenPatches see_patches_of_samples(const models::MaeConfig& model,
                                           const at::Tensor& indices,
                                           const models::PatchInput& patches) {
  const kernels::DropKey key{philox_key(0, "masked_autoencoding.evaluation"), 0, indices};
  return models::see_patches(model, key, models::real_patches(patches));
}

at::Tensor adaptive_patch_losses(const TensorBatch& batch, const at::Tensor& predictions,
                                 const MaskedAutoencodingConfig& config) {
  const auto& tokens = batch.patches.tokens;
  const auto channels = tokens.size(1);
  if (config.loss_space == "image") {
    return patch_errors_in_image(tokens_of_rows(in_sum_dtype(predictions), channels),
                                 in_sum_dtype(batch.images).to(predictions.device()), batch.trees);
  }
  const auto targets = adaptive_targets(tokens, config.norm_pix_loss);  // [B, L, V]
  const auto errors = (predictions.to(targets.scalar_type()) - targets).square();
  const auto counted = values_with_leaf(batch.patches);
  if (!counted.defined()) return errors.mean(-1);
  return (errors * counted).sum(-1) / counted.sum(-1).clamp_min(1);
}

at::Tensor counted_adaptive_patches(const TensorBatch& batch, const models::SeenPatches& seen,
                                    const MaskedAutoencodingConfig& config) {
  const auto is_real = models::real_patches(batch.patches);  // [B, L]
  auto counted =
      config.loss_on == "masked" ? models::patch_mask(seen, is_real) : is_real.to(at::kFloat);
  if (config.loss_on == "all_and_padding") counted = at::ones_like(counted);
  return batch.weights.defined() ? counted * batch.weights.to(counted.device()).unsqueeze(1)
                                 : counted;
}

LossParts adaptive_autoencoding_loss(const TensorBatch& batch, const at::Tensor& predictions,
                                     const models::SeenPatches& seen,
                                     const MaskedAutoencodingConfig& config) {
  const auto counted = counted_adaptive_patches(batch, seen, config);  // [B, L]
  LossParts parts;
  parts.loss_sum = (adaptive_patch_losses(batch, predictions, config) * counted).sum();
  parts.weight = counted.sum(at::kDouble).item<double>();
  parts.outputs = predictions.detach();
  return parts;
}

AdaptivePictures restore_adaptive(const TensorBatch& batch, const at::Tensor& predictions,
                                  const models::SeenPatches& seen, bool norm_pix_loss) {
  const auto images = in_sum_dtype(images_on_host(batch));
  const auto sides = images.sizes().slice(2);
  const auto& tokens = batch.patches.tokens;
  auto predicted = in_sum_dtype(predictions.to(at::kCPU));  // [B, L, V]
  if (norm_pix_loss) {
    const auto moments = patch_moments(rows_of_tokens(tokens.to(at::kCPU)));
    predicted = predicted * moments.deviation + moments.mean;
  }
  constexpr bool kTreeOfChannel = true;
  const auto painted = images_of_patches(tokens_of_rows(predicted, tokens.size(1)), batch.trees,
                                         sides, kTreeOfChannel);  // [B, C, sides]
  const auto mask =
      models::patch_mask(seen, models::real_patches(batch.patches)).to(at::kCPU);  // [B, L]
  const auto is_masked = images_of_patches(mask.unsqueeze(1).unsqueeze(-1).expand(tokens.sizes()),
                                           batch.trees, sides, kTreeOfChannel)
                             .gt(0.5);
  return {.restored = at::where(is_masked, painted.to(images.scalar_type()), images),
          .hidden = images.masked_fill(is_masked, std::numeric_limits<double>::quiet_NaN())};
}

}  // namespace fovea::train
