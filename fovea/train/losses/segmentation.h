// Losses of segmentation: a class for each pixel or voxel.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "fovea/config/fields.h"

// B batch, K classes, V voxels of a sample (sides H, W or D, H, W).
namespace fovea::train {

struct SegmentationLossConfig {
  std::string name = "dice_ce";
  bool include_background = true;
  bool sigmoid = false;
  bool squared_pred = false;
  double smooth_nr = 1e-5;
  double smooth_dr = 1e-5;
  bool batch = false;
  double lambda_dice = 1.0;
  double lambda_ce = 1.0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    const FieldOptions not_negative = {.min = 0};
    v.field("name", self.name,
            "cross-entropy (ce), Dice, Dice and cross-entropy, Dice and binary cross-entropy of "
            "each class, or UCF-VIT's half of each over the whole batch without the background",
            {.choices = {"ce", "dice", "dice_ce", "dice_bce", "ucf_dice_bce"}});
    v.field("include_background", self.include_background, "class 0 counts in the Dice part");
    v.field("sigmoid", self.sigmoid,
            "the Dice part sees a sigmoid of each class instead of the softmax; dice_bce always "
            "does");
    v.field("squared_pred", self.squared_pred, "squares in the Dice denominator");
    v.field("smooth_nr", self.smooth_nr, "added to the Dice numerator", not_negative);
    v.field("smooth_dr", self.smooth_dr, "added to the Dice denominator", not_negative);
    v.field("batch", self.batch,
            "Dice over all voxels of the batch instead of the mean over its samples");
    v.field("lambda_dice", self.lambda_dice, "weight of the Dice part", not_negative);
    v.field("lambda_ce", self.lambda_ce, "weight of the other part", not_negative);
  }

  // Whether the losses of samples add up to that of the batch. A Dice over the batch is a quotient
  // of sums, and does not.
  bool adds_up() const { return name == "ce" || (!batch && name != "ucf_dice_bce"); }
};

// Losses with MONAI's meaning (DiceLoss, DiceCELoss with to_onehot_y, jaccard off).
// logits: [B, K, sides] any float dtype; labels: [B, sides] int64, below 0: the voxel counts for
// nothing; weights: [B] float32 or undefined, 0: the sample counts for nothing.
// -> [B] float32 (float64 for float64 logits): the loss of each sample, not weighted; with !adds_up
// the one loss of the batch, B times.
//   Dice of a class: 1 - (2 sum p t + smooth_nr) / (sum p^e + sum t^e + smooth_dr), e = 2 with
//   squared_pred; mean over classes.
//   ce, bce: mean over the voxels of the sample that count (bce: and over classes).
//   ucf_dice_bce: 0.5 bce + 0.5 Dice of all classes but 0 taken together, both smooth_ 1.
// all_count: whether every label is known to count; without it the host looks, and waits for a GPU.
at::Tensor segmentation_losses(const at::Tensor& logits, const at::Tensor& labels,
                               const SegmentationLossConfig& config, const at::Tensor& weights = {},
                               std::optional<bool> all_count = {});

// What a loss with !adds_up is a function of: [S] float64 sums over voxels, with a graph, which add
// up over parts of a batch. For the Dice part sum p t, sum p^e and sum t^e of each class (of
// ucf_dice_bce one of each, of all its classes), then the sum of the other part and the number of
// voxels that count, of ucf_dice_bce times classes. Arguments as those of segmentation_losses.
at::Tensor batch_statistics(const at::Tensor& logits, const at::Tensor& labels,
                            const SegmentationLossConfig& config, const at::Tensor& weights = {},
                            std::optional<bool> all_count = {});

// statistics: of the whole batch -> its loss, a scalar float64.
at::Tensor loss_of_statistics(const at::Tensor& statistics, const SegmentationLossConfig& config);

}  // namespace fovea::train
