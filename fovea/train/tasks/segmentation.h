// Segmentation: a class for each pixel of an image, or each voxel of a volume.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/train/evaluate/sliding_window.h"
#include "fovea/train/losses/segmentation.h"
#include "fovea/train/metrics/hausdorff.h"
#include "fovea/train/metrics/overlap.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

struct SegmentationConfig {
  static constexpr std::string_view kName = "segmentation";
  SegmentationLossConfig loss = {};
  std::optional<int64_t> ignore_label = {};
  bool metrics_background = false;
  bool hd95 = false;
  std::vector<double> spacing = {1.0};
  SlidingWindowConfig sliding_window = {};
  std::vector<std::string> own_metrics = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("loss", self.loss, "what is minimised");
    v.field("ignore_label", self.ignore_label,
            "class whose voxels count for nothing, as those without a label do", {.min = 0});
    v.field("metrics_background", self.metrics_background,
            "class 0 counts in dice, iou and hd95; it always has numbers of its own");
    v.field("hd95", self.hd95,
            "evaluate the 95th percentile of the Hausdorff distance too; it takes a while");
    v.field("spacing", self.spacing,
            "between voxels along D, H, W (images: H, W) for hd95; one number for all axes",
            {.min = 0, .exclusive_min = true, .unit = "millimetres", .one_is_list = true});
    v.field("sliding_window", self.sliding_window,
            "how images that are not of the model's size are evaluated and predicted");
    v.field("own_metrics", self.own_metrics,
            "evaluated beside dice, iou and loss, as the mean over samples: names that the program "
            "which reads the recipe has given them: fovea.register_metric in Python, "
            "train::register_metric in C++");
  }
  void validate(ConfigIssues& issues) const;
};

// Logits of whole images. images: [B, C, sides] -> [B, K, sides]: one pass where the sides are
// `window`, else windows of it, blended; float32 on the CPU then.
at::Tensor segment_whole(const models::Model& model, const models::ModelInput& images,
                         at::IntArrayRef window, const SlidingWindowConfig& config);

// The same of a batch. A model of patches that gives patches sees the whole image in one pass, and
// its logits are put back through each sample's tree; for one that gives images each window of a
// volume is cut by itself. Throws ConfigError: images, which are cut by their bytes, of another
// size than the model's.
at::Tensor segment_whole(const models::Model& model, const TensorBatch& batch,
                         const SlidingWindowConfig& config);

// logits: [B, K, L, p^d] float, of the patches along trees[b * T], p = patch_size -> [B, K, sides]
// float32 on the CPU; zeros for a sample without a tree.
at::Tensor logits_of_patches(const at::Tensor& logits, std::span<const data::PatchTree> trees,
                             at::IntArrayRef sides);

// Dice, IoU and hd95 of each sample, averaged as MONAI's DiceMetric, MeanIoU and
// HausdorffDistanceMetric do: a class that a sample has no label of is left out of its mean.
class SegmentationEvaluation : public Evaluation {
 public:
  SegmentationEvaluation(const SegmentationConfig& config, int64_t num_classes);
  void add(const TensorBatch& batch, const LossParts& parts) override;
  nlohmann::json part() const override;
  void join(const std::vector<nlohmann::json>& parts) override;
  // loss, dice, iou and hd95 (with config.hd95), dice_0, iou_0, ... of each class, and those from
  // outside.
  std::map<std::string, double> metrics() const override;
  int64_t num_samples() const override { return num_samples_; }
  // Images, labels and predictions of a few samples, evenly spread; of volumes the middle slice.
  void describe(EvaluationFile& file, const data::Dataset& dataset) const override;

 private:
  struct Picture {
    int64_t index = 0;  // in the data set
    double dice = 0;
    std::string png;
  };
  void add_sample(const at::Tensor& image, const at::Tensor& labels, const at::Tensor& predicted,
                  int64_t index);
  void add_own_metrics(const at::Tensor& logits, const at::Tensor& labels);
  std::vector<double> hausdorff_distances(const at::Tensor& labels,
                                          const at::Tensor& predicted) const;

  SegmentationConfig config_;
  int64_t num_classes_;
  SampleMeans dice_, iou_, hd95_;
  std::map<std::string, double> own_sums_;  // over samples
  std::vector<Picture> pictures_;
  int64_t picture_every_ = 1;  // samples; doubled where there would be too many pictures
  double loss_sum_ = 0, weight_ = 0;
  int64_t num_samples_ = 0;
};

class SegmentationTask : public Task {
 public:
  // Throws ConfigError: the model gives no classes of pixels; ignore_label is none of its classes.
  SegmentationTask(const SegmentationConfig& config, const models::Model& model);
  // Throws ConfigError: no masks, or another number of classes.
  void check_data(const data::Dataset& dataset) const override;
  std::vector<std::string> metric_names() const override;
  bool has_loss_of_batch() const override { return !config_.loss.adds_up(); }
  at::Tensor loss_of_statistics(const at::Tensor& statistics) const override {
    return train::loss_of_statistics(statistics, config_.loss);
  }
  // Weights are samples. A model that takes patches learns in their pixels, and is evaluated in
  // those of the image. Throws DataError: masks are missing, of another shape than the images, or
  // hold a class that the model has not.
  LossParts loss(models::Model& model, const TensorBatch& batch) const override;
  kernels::Recordable can_be_recorded() const override { return {}; }
  // Whether every pixel counts.
  std::string recorded_for(const TensorBatch& batch) const override;
  std::unique_ptr<Evaluation> start_evaluation() const override;

 private:
  at::Tensor host_labels_of(const TensorBatch& batch) const;
  std::optional<bool> all_count(const TensorBatch& batch) const;
  void check_classes(const at::Tensor& labels, const at::Tensor& host_labels) const;
  at::Tensor without_ignored(const at::Tensor& labels) const;
  at::Tensor labels_of(const TensorBatch& batch) const;
  LossParts loss_of_patches(models::Model& model, const TensorBatch& batch) const;
  at::Tensor losses_of(const at::Tensor& logits, const at::Tensor& labels,
                       const TensorBatch& batch) const;
  LossParts parts_of(const at::Tensor& logits, const at::Tensor& labels, const TensorBatch& batch,
                     bool is_training) const;

  SegmentationConfig config_;
  int64_t num_classes_;
  bool gives_patches_;
};

}  // namespace fovea::train
