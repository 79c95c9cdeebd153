#include "fovea/train/losses/segmentation.h"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

// A batch with its voxels in a row.
struct Voxels {
  at::Tensor logits;   // [B, K, V]
  at::Tensor labels;   // [B, V] in [0, K)
  at::Tensor one_hot;  // [B, K, V], 0 where a voxel does not count
  at::Tensor counts;   // [B, 1, V] 0 or 1; undefined: all count
};

Voxels flatten(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& weights,
               std::optional<bool> all_count) {
  FOVEA_CHECK(
      logits.dim() == labels.dim() + 1 && logits.size(0) == labels.size(0) &&
          logits.sizes().slice(2) == labels.sizes().slice(1),
      "logits of shape [{}] and labels of shape [{}]; expected [B, K, sides] and [B, sides]",
      fmt::join(logits.sizes(), ", "), fmt::join(labels.sizes(), ", "));
  const auto dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Voxels voxels;
  voxels.logits = logits.flatten(2).to(dtype);  // [B, K, V]
  voxels.labels = labels.flatten(1);            // [B, V]
  auto counts = voxels.labels.ge(0);            // [B, V]
  if (weights.defined()) {
    counts = counts.logical_and(weights.ne(0).unsqueeze(1));
    all_count = {};
  }
  if (!(all_count ? *all_count : counts.all().item<bool>())) {
    voxels.counts = counts.unsqueeze(1).to(dtype);  // [B, 1, V]
    voxels.labels = voxels.labels.clamp_min(0);
  }
  voxels.one_hot = at::zeros(voxels.logits.sizes(), voxels.logits.options());
  voxels.one_hot.scatter_(1, voxels.labels.unsqueeze(1), 1.0);
  if (voxels.counts.defined()) voxels.one_hot *= voxels.counts;
  return voxels;
}

// [B, K, V] without class 0.
at::Tensor foreground(const at::Tensor& x) { return x.narrow(1, 1, x.size(1) - 1); }

// values: [B, K, V] -> [B]: mean over classes and over the voxels that count.
at::Tensor mean_over_voxels(const at::Tensor& values, const Voxels& voxels) {
  if (!voxels.counts.defined()) return values.flatten(1).mean(1);
  const auto counted = (voxels.counts.sum({1, 2}) * values.size(1)).clamp_min(1.0);  // [B]
  return (values * voxels.counts).sum({1, 2}) / counted;
}

at::Tensor cross_entropies(const Voxels& voxels) {
  const auto log_p = at::log_softmax(voxels.logits, 1);                           // [B, K, V]
  return mean_over_voxels(-log_p.gather(1, voxels.labels.unsqueeze(1)), voxels);  // [B]
}

at::Tensor binary_cross_entropies(const at::Tensor& logits, const at::Tensor& one_hot) {
  return at::binary_cross_entropy_with_logits(logits, one_hot, {}, {}, at::Reduction::None);
}

// -> [B], or with config.batch [1].
at::Tensor dice_losses(const Voxels& voxels, bool sigmoid, const SegmentationLossConfig& config) {
  auto p = sigmoid ? at::sigmoid(voxels.logits) : at::softmax(voxels.logits, 1);  // [B, K, V]
  auto t = voxels.one_hot;
  if (voxels.counts.defined()) p = p * voxels.counts;
  if (!config.include_background) {
    p = foreground(p);
    t = foreground(t);
  }
  const std::vector<int64_t> axes =
      config.batch ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{2};
  const auto joint = (p * t).sum(axes);  // [B, K] or [K]
  const auto predicted = (config.squared_pred ? p.square() : p).sum(axes);
  const auto numerator = 2 * joint + config.smooth_nr;
  const auto denominator = predicted + t.sum(axes) + config.smooth_dr;
  return (1 - numerator / denominator).mean(-1).reshape({-1});
}

// UCF-VIT's DiceBLoss. -> [1].
at::Tensor ucf_dice_bce(const Voxels& voxels) {
  const auto logits = foreground(voxels.logits);
  const auto t = foreground(voxels.one_hot);
  auto p = at::sigmoid(logits);
  auto bce = binary_cross_entropies(logits, t);
  if (voxels.counts.defined()) {
    p = p * voxels.counts;
    bce = (bce * voxels.counts).sum() / (voxels.counts.sum() * t.size(1)).clamp_min(1.0);
  } else {
    bce = bce.mean();
  }
  const auto dice = 1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1);
  return (0.5 * bce + 0.5 * dice).reshape({1});
}

// One mean over the voxels of the whole batch, as MONAI takes it, where Dice is of the batch too.
at::Tensor over_batch(const at::Tensor& losses, const Voxels& voxels) {
  if (!voxels.counts.defined()) return losses.mean(0, /*keepdim=*/true);
  const auto counted = voxels.counts.sum({1, 2});  // [B]
  return ((losses * counted).sum() / counted.sum().clamp_min(1.0)).reshape({1});
}

}  // namespace

at::Tensor segmentation_losses(const at::Tensor& logits, const at::Tensor& labels,
                               const SegmentationLossConfig& config, const at::Tensor& weights,
                               std::optional<bool> all_count) {
  // What is not taken over the batch is weighted by the caller.
  const auto voxels = flatten(logits, labels, config.adds_up() ? at::Tensor() : weights, all_count);
  const auto samples = logits.size(0);
  if (config.name == "ucf_dice_bce") return ucf_dice_bce(voxels).expand({samples});
  at::Tensor other;  // [B]
  if (config.name == "dice_bce") {
    other = mean_over_voxels(binary_cross_entropies(voxels.logits, voxels.one_hot), voxels);
  } else if (config.name != "dice") {
    other = cross_entropies(voxels);
  }
  if (config.name == "ce") return other;
  if (other.defined() && config.batch) other = over_batch(other, voxels);
  auto losses = dice_losses(voxels, config.sigmoid || config.name == "dice_bce", config);
  if (other.defined()) losses = config.lambda_dice * losses + config.lambda_ce * other;
  return losses.expand({samples});
}

}  // namespace fovea::train
