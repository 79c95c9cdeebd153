// What an evaluation of segmentation adds up. K classes; sides are H, W or D, H, W.
#include <ATen/ops/bincount.h>

#include <nlohmann/json.hpp>

#include "fovea/data/image/png.h"
#include "fovea/train/evaluate/evaluation_parts.h"
#include "fovea/train/evaluate/mask_picture.h"
#include "fovea/train/evaluate/sample_picture.h"
#include "fovea/train/tasks/own_metric.h"
#include "fovea/train/tasks/segmentation.h"

namespace fovea::train {
namespace {

constexpr size_t kMaxMaskPictures = 8;

// [K, K] voxels: rows are labels, columns predictions; voxels without a label are left out.
std::vector<int64_t> count_voxels(const at::Tensor& labels, const at::Tensor& predicted,
                                  int64_t num_classes) {
  const auto pairs = (labels * num_classes + predicted).masked_select(labels.ge(0));
  const auto counts = at::bincount(pairs, {}, num_classes * num_classes).contiguous();
  const auto* first = counts.const_data_ptr<int64_t>();
  return {first, first + counts.numel()};
}

std::vector<uint8_t> voxels_of(const at::Tensor& classes, int64_t label) {
  const auto is_label = classes.eq(label).to(at::kByte).contiguous();
  const auto* first = is_label.const_data_ptr<uint8_t>();
  return {first, first + is_label.numel()};
}

}  // namespace

SegmentationEvaluation::SegmentationEvaluation(const SegmentationConfig& config,
                                               int64_t num_classes)
    : config_(config),
      num_classes_(num_classes),
      dice_(num_classes, config.metrics_background ? 0 : 1),
      iou_(num_classes, config.metrics_background ? 0 : 1),
      hd95_(num_classes, config.metrics_background ? 0 : 1) {}

void SegmentationEvaluation::add(const TensorBatch& batch, const LossParts& parts) {
  auto labels = batch.masks.to(at::kCPU, at::kLong);  // [B, sides]
  if (config_.ignore_label) labels = labels.masked_fill(labels.eq(*config_.ignore_label), -1);
  const auto predicted = parts.outputs.argmax(1).to(at::kCPU);  // [B, sides]
  const auto weights = batch.weights.defined() ? batch.weights.to(at::kCPU) : at::Tensor();
  loss_sum_ += parts.loss_sum.item<double>();
  weight_ += parts.weight;
  for (int64_t b = 0; b < labels.size(0); ++b) {
    if (weights.defined() && weights.const_data_ptr<float>()[b] == 0) continue;
    add_sample(batch.images[b], labels[b], predicted[b],
               batch.indices.const_data_ptr<int64_t>()[b]);
    add_own_metrics(parts.outputs.narrow(0, b, 1), labels.narrow(0, b, 1));
  }
}

// Of one sample. logits: [1, K, sides], labels: [1, sides]
void SegmentationEvaluation::add_own_metrics(const at::Tensor& logits, const at::Tensor& labels) {
  if (config_.own_metrics.empty()) return;
  const auto values = logits.to(at::kCPU, at::kFloat);
  for (const auto& name : config_.own_metrics) {
    own_sums_[name] += own_metric_of(name, values, labels);
  }
}

void SegmentationEvaluation::add_sample(const at::Tensor& image, const at::Tensor& labels,
                                        const at::Tensor& predicted, int64_t index) {
  const auto counts = count_voxels(labels, predicted, num_classes_);
  dice_.add(dice_scores(counts, num_classes_));
  iou_.add(iou_scores(counts, num_classes_));
  if (config_.hd95) hd95_.add(hausdorff_distances(labels, predicted));
  if (num_samples_ % picture_every_ == 0) {
    if (pictures_.size() == kMaxMaskPictures) {
      for (size_t i = 1; i < kMaxMaskPictures / 2; ++i) pictures_[i] = std::move(pictures_[2 * i]);
      pictures_.resize(kMaxMaskPictures / 2);
      picture_every_ *= 2;
    }
    if (num_samples_ % picture_every_ == 0) {
      SampleMeans dice(num_classes_, config_.metrics_background ? 0 : 1);
      dice.add(dice_scores(counts, num_classes_));
      const auto png = data::encode_png(mask_picture(image, labels, predicted, kPictureSide));
      pictures_.push_back({index, dice.mean(), {png.begin(), png.end()}});
    }
  }
  num_samples_ += 1;
}

// Voxels without a label belong to neither mask.
std::vector<double> SegmentationEvaluation::hausdorff_distances(const at::Tensor& labels,
                                                                const at::Tensor& predicted) const {
  const auto counted = predicted.masked_fill(labels.lt(0), -1);
  const auto dims = static_cast<size_t>(labels.dim());
  HausdorffOptions options{.spatial_dims = static_cast<int>(dims)};
  for (size_t axis = 0; axis < dims; ++axis) {
    options.spacing[3 - dims + axis] =
        config_.spacing.size() == dims ? config_.spacing[axis] : config_.spacing.front();
  }
  const data::VolumeSize size = {dims == 3 ? labels.size(0) : 1, labels.size(-2), labels.size(-1)};
  std::vector<double> distances;
  for (int64_t label = 0; label < num_classes_; ++label) {
    distances.push_back(
        hausdorff_distance(voxels_of(counted, label), voxels_of(labels, label), size, options));
  }
  return distances;
}

nlohmann::json SegmentationEvaluation::part() const {
  auto pictures = nlohmann::json::array();
  for (const auto& picture : pictures_) {
    pictures.push_back(
        {{"index", picture.index}, {"dice", picture.dice}, {"png", json_of_bytes(picture.png)}});
  }
  return {{"dice", dice_.numbers()}, {"iou", iou_.numbers()}, {"hd95", hd95_.numbers()},
          {"loss_sum", loss_sum_},   {"weight", weight_},     {"num_samples", num_samples_},
          {"own_sums", own_sums_},   {"pictures", pictures}};
}

void SegmentationEvaluation::join(const std::vector<nlohmann::json>& parts) {
  auto all = SegmentationEvaluation(config_, num_classes_);
  const auto numbers = [](const nlohmann::json& value) { return value.get<std::vector<double>>(); };
  for (const auto& part : parts) {
    all.dice_.add_numbers(numbers(part.at("dice")));
    all.iou_.add_numbers(numbers(part.at("iou")));
    all.hd95_.add_numbers(numbers(part.at("hd95")));
    all.loss_sum_ += part.at("loss_sum").get<double>();
    all.weight_ += part.at("weight").get<double>();
    all.num_samples_ += part.at("num_samples").get<int64_t>();
    for (const auto& [name, sum] : part.at("own_sums").items()) {
      all.own_sums_[name] += sum.get<double>();
    }
    for (const auto& picture : part.at("pictures")) {
      all.pictures_.push_back(
          {picture.at("index"), picture.at("dice"), bytes_of(picture.at("png"))});
    }
  }
  all.pictures_ = spread_evenly(std::move(all.pictures_), kMaxMaskPictures);
  *this = std::move(all);
}

std::map<std::string, double> SegmentationEvaluation::metrics() const {
  std::map<std::string, double> metrics = {{"loss", weight_ > 0 ? loss_sum_ / weight_ : 0.0},
                                           {"dice", dice_.mean()},
                                           {"iou", iou_.mean()}};
  if (config_.hd95) metrics["hd95"] = hd95_.mean();
  for (const auto& [name, sum] : own_sums_) {
    metrics[name] = sum / static_cast<double>(num_samples_);
  }
  for (int64_t label = 0; label < num_classes_; ++label) {
    metrics[fmt::format("dice_{}", label)] = dice_.mean_of(label);
    metrics[fmt::format("iou_{}", label)] = iou_.mean_of(label);
    if (config_.hd95) metrics[fmt::format("hd95_{}", label)] = hd95_.mean_of(label);
  }
  return metrics;
}

void SegmentationEvaluation::describe(EvaluationFile& file, const data::Dataset& dataset) const {
  file.class_names = dataset.class_names();
  file.num_classes = num_classes_;
  for (const auto& picture : pictures_) {
    file.pictures.push_back(
        {.title = dataset.describe(picture.index),
         .caption = fmt::format("Image, labels, prediction; Dice {:.4f}", picture.dice),
         .image_png = picture.png});
  }
}

}  // namespace fovea::train
