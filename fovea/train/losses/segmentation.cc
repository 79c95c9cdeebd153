#include "fovea/train/losses/segmentation.h"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <vector>

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

at::Tensor binary_cross_entropies(const at::Tensor& logits, const at::Tensor& one_hot) {
  return at::binary_cross_entropy_with_logits(logits, one_hot, {}, {}, at::Reduction::None);
}

// Of each class of the Dice part: sums over voxels, of each sample [B, K] or of the batch [K].
struct DiceSums {
  at::Tensor joint, predicted, labelled;
};

DiceSums dice_sums(const Voxels& voxels, const SegmentationLossConfig& config,
                   at::IntArrayRef axes) {
  const bool is_ucf = config.name == "ucf_dice_bce";
  const bool sigmoid = config.sigmoid || config.name == "dice_bce" || is_ucf;
  auto p = sigmoid ? at::sigmoid(voxels.logits) : at::softmax(voxels.logits, 1);  // [B, K, V]
  auto t = voxels.one_hot;
  if (voxels.counts.defined()) p = p * voxels.counts;
  if (!config.include_background || is_ucf) {
    p = foreground(p);
    t = foreground(t);
  }
  return {.joint = (p * t).sum(axes),
          .predicted = (config.squared_pred && !is_ucf ? p.square() : p).sum(axes),
          .labelled = t.sum(axes)};
}

// Mean over classes.
at::Tensor dice_losses(const DiceSums& sums, double smooth_nr, double smooth_dr) {
  const auto numerator = 2 * sums.joint + smooth_nr;
  return (1 - numerator / (sums.predicted + sums.labelled + smooth_dr)).mean(-1);
}

// [B, K or 1, V] of the part beside Dice; undefined: there is none.
at::Tensor other_losses(const Voxels& voxels, const std::string& name) {
  if (name == "dice") return {};
  if (name == "dice_bce") return binary_cross_entropies(voxels.logits, voxels.one_hot);
  if (name == "ucf_dice_bce") {
    return binary_cross_entropies(foreground(voxels.logits), foreground(voxels.one_hot));
  }
  const auto log_p = at::log_softmax(voxels.logits, 1);  // [B, K, V]
  return -log_p.gather(1, voxels.labels.unsqueeze(1));   // [B, 1, V]
}

}  // namespace

at::Tensor segmentation_losses(const at::Tensor& logits, const at::Tensor& labels,
                               const SegmentationLossConfig& config, const at::Tensor& weights,
                               std::optional<bool> all_count) {
  const auto samples = logits.size(0);
  if (!config.adds_up()) {
    const auto statistics = batch_statistics(logits, labels, config, weights, all_count);
    const auto dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return loss_of_statistics(statistics, config).to(dtype).expand({samples});
  }
  const auto voxels = flatten(logits, labels, /*weights=*/{}, all_count);  // the caller weighs
  auto other = other_losses(voxels, config.name);
  if (other.defined()) other = mean_over_voxels(other, voxels);  // [B]
  if (config.name == "ce") return other;
  auto losses = dice_losses(dice_sums(voxels, config, {2}), config.smooth_nr, config.smooth_dr);
  if (other.defined()) losses = config.lambda_dice * losses + config.lambda_ce * other;
  return losses;
}

at::Tensor batch_statistics(const at::Tensor& logits, const at::Tensor& labels,
                            const SegmentationLossConfig& config, const at::Tensor& weights,
                            std::optional<bool> all_count) {
  const auto voxels = flatten(logits, labels, weights, all_count);
  const bool is_ucf = config.name == "ucf_dice_bce";
  const auto dice =
      dice_sums(voxels, config, is_ucf ? at::IntArrayRef({0, 1, 2}) : at::IntArrayRef({0, 2}));
  auto other = other_losses(voxels, config.name);  // [B, K or 1, V]
  const int64_t per_voxel = other.defined() ? other.size(1) : 1;
  if (!other.defined()) {
    other = at::zeros({1}, voxels.logits.options());
  } else if (voxels.counts.defined()) {
    other = other * voxels.counts;
  }
  const auto wide = voxels.logits.options().dtype(at::kDouble);
  const auto counted = voxels.counts.defined()
                           ? voxels.counts.sum(at::kDouble)
                           : at::full({}, static_cast<double>(voxels.labels.numel()), wide);
  std::vector<at::Tensor> sums;
  for (const auto& sum : {dice.joint, dice.predicted, dice.labelled, other.sum()}) {
    sums.push_back(sum.to(at::kDouble).reshape({-1}));
  }
  sums.push_back((counted * per_voxel).reshape({1}));
  return at::cat(sums);
}

at::Tensor loss_of_statistics(const at::Tensor& statistics, const SegmentationLossConfig& config) {
  const int64_t classes = (statistics.size(0) - 2) / 3;
  const DiceSums sums{.joint = statistics.narrow(0, 0, classes),
                      .predicted = statistics.narrow(0, classes, classes),
                      .labelled = statistics.narrow(0, 2 * classes, classes)};
  const auto other = statistics[3 * classes] / statistics[3 * classes + 1].clamp_min(1.0);
  if (config.name == "ucf_dice_bce") return 0.5 * other + 0.5 * dice_losses(sums, 1, 1);
  const auto dice = dice_losses(sums, config.smooth_nr, config.smooth_dr);
  if (config.name == "dice") return dice;
  return config.lambda_dice * dice + config.lambda_ce * other;
}

}  // namespace fovea::train
