#include "fovea/train/tasks/classification.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/kernels/host_part.h"
#include "fovea/train/evaluate/evaluation_parts.h"
#include "fovea/train/tasks/own_loss.h"
#include "fovea/train/tasks/own_metric.h"

// B batch, C classes.
namespace fovea::train {
namespace {

constexpr std::array kMetricNames = {"top1", "top5", "loss"};

// Labels as they come, or the class that soft targets name first. -> [B] int64.
at::Tensor hard_labels(const at::Tensor& labels) {
  return labels.dim() == 2 ? labels.argmax(1) : labels;
}

void check_labels(const at::Tensor& labels, int64_t num_classes) {
  if (labels.dim() == 2 || labels.numel() == 0) return;
  const auto low = labels.min().item<int64_t>(), high = labels.max().item<int64_t>();
  if (low >= 0 && high < num_classes) return;
  fail<DataError>(
      "label {} in a batch; expected labels in [0, {}): set model.num_classes to the number of "
      "classes "
      "of the data, or leave samples without a label out",
      low < 0 ? low : high, num_classes);
}

// Labels are checked; at::one_hot looks at them once more, and the host waits.
at::Tensor one_hot_rows(const at::Tensor& labels, int64_t num_classes) {
  const auto rows =
      at::zeros({labels.size(0), num_classes}, labels.options().dtype(at::kFloat));  // [B, C]
  return rows.scatter(1, labels.unsqueeze(1), 1.0);
}

at::Tensor soft_targets(const at::Tensor& labels, int64_t num_classes, double smoothing) {
  const auto targets =
      labels.dim() == 2 ? labels.to(at::kFloat) : one_hot_rows(labels, num_classes);  // [B, C]
  return smoothing == 0 ? targets
                        : targets * (1 - smoothing) + smoothing / static_cast<double>(num_classes);
}

// [M, C]; [M, 0] where they are not kept.
at::Tensor logits_of(const std::vector<ClassificationEvaluation::Prediction>& predictions) {
  const auto count = static_cast<int64_t>(predictions.size());
  const auto num_logits = count == 0 ? 0 : static_cast<int64_t>(predictions.front().logits.size());
  const auto logits = at::zeros({count, num_logits}, at::kFloat);
  auto* logit = logits.data_ptr<float>();
  for (const auto& prediction : predictions) {
    logit = std::copy(prediction.logits.begin(), prediction.logits.end(), logit);
  }
  return logits;
}

}  // namespace

void ClassificationConfig::validate(ConfigIssues& issues) const {
  check_own_metrics(own_metrics, {kMetricNames.begin(), kMetricNames.end()}, issues);
}

at::Tensor classification_losses(const at::Tensor& logits, const at::Tensor& labels,
                                 const ClassificationConfig& config) {
  if (config.loss == "own") return own_losses(config.own_loss, logits, labels);
  const int64_t num_classes = logits.size(1);
  const auto kind = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (config.loss == "bce") {
    const auto targets = soft_targets(labels, num_classes, config.label_smoothing).to(kind);
    return at::binary_cross_entropy_with_logits(logits.to(kind), targets, {}, {},
                                                at::Reduction::None)
        .mean(1);  // [B]
  }
  const auto log_p = at::log_softmax(logits, 1, kind);  // [B, C]
  if (labels.dim() == 2) {
    return -(soft_targets(labels, num_classes, config.label_smoothing) * log_p).sum(1);
  }
  const auto nll = -log_p.gather(1, labels.unsqueeze(1)).squeeze(1);  // [B]
  if (config.label_smoothing == 0) return nll;
  return nll * (1 - config.label_smoothing) - log_p.mean(1) * config.label_smoothing;
}

void ClassificationTask::check_data(const data::Dataset& dataset) const {
  if (config_.loss == "own") own_loss(config_.own_loss);
  find_own_metrics(config_.own_metrics);
  if (dataset.has_masks()) {
    fail<ConfigError>(
        "task: classification, but {} has a mask, a class for each pixel; expected one class for "
        "each image: leave `masks` out, or give labels",
        dataset.describe(0));
  }
  const int64_t found = dataset.num_classes();
  if (found == 0 || num_classes_ == found) return;
  fail<ConfigError>(
      "model.num_classes: found {}, but the data has {} classes; set model.num_classes={}",
      num_classes_, found, found);
}

LossParts ClassificationTask::loss(models::Model& model, const TensorBatch& batch) const {
  // A check on a GPU would have the host wait for it.
  kernels::host_check([labels = batch.host_labels.defined() ? batch.host_labels : batch.labels,
                       num_classes = num_classes_] { check_labels(labels, num_classes); });
  const auto logits = forward(model, batch);  // [B, C]
  FOVEA_CHECK(logits.dim() == 2 && logits.size(1) == num_classes_,
              "classification: the model gives {} of {} values for each image, expected logits of "
              "{} classes; "
              "set model.num_classes and a pooling other than ''",
              logits.dim() == 2 ? "a row" : "a grid", logits.size(-1), num_classes_);
  LossParts parts;
  auto losses = classification_losses(logits, batch.labels, config_);  // [B]
  parts.outputs = logits.detach();
  auto correct = parts.outputs.argmax(1).eq(hard_labels(batch.labels)).to(at::kFloat);  // [B]
  parts.weight = static_cast<double>(logits.size(0));
  if (batch.weights.defined()) {
    losses = losses * batch.weights;
    correct = correct * batch.weights;
    parts.weight = batch.weights.sum().item<double>();
  }
  parts.loss_sum = losses.sum();
  parts.sums["top1"] = 100 * correct.sum().to(at::kDouble);
  return parts;
}

std::vector<std::string> ClassificationTask::metric_names() const {
  std::vector<std::string> names(kMetricNames.begin(), kMetricNames.end());
  names.insert(names.end(), config_.own_metrics.begin(), config_.own_metrics.end());
  return names;
}

// An evaluation by itself (`fovea eval`) has nobody who checks the data first.
std::unique_ptr<Evaluation> ClassificationTask::start_evaluation() const {
  find_own_metrics(config_.own_metrics);
  return std::make_unique<ClassificationEvaluation>(config_, num_classes_);
}

ClassificationEvaluation::ClassificationEvaluation(const ClassificationConfig& config,
                                                   int64_t num_classes)
    : config_(config), num_classes_(num_classes) {
  config_.label_smoothing = 0;
}

void ClassificationEvaluation::add(const TensorBatch& batch, const LossParts& parts) {
  const auto labels = hard_labels(batch.labels).to(at::kCPU);               // [B]
  const auto logits = parts.outputs.to(at::kCPU, at::kFloat).contiguous();  // [B, C]
  const auto losses = classification_losses(logits, labels, config_);       // [B]
  const int64_t listed = std::min<int64_t>(5, logits.size(1));
  const auto [scores, classes] = logits.softmax(1).topk(listed, 1);  // [B, 5]
  const auto score = scores.accessor<float, 2>();
  const auto top = classes.accessor<int64_t, 2>();
  const auto weights = batch.weights.defined() ? batch.weights.to(at::kCPU) : at::Tensor();
  for (int64_t b = 0; b < labels.size(0); ++b) {
    if (weights.defined() && weights.const_data_ptr<float>()[b] == 0) continue;
    Prediction prediction{.index = batch.indices.const_data_ptr<int64_t>()[b],
                          .label = labels.const_data_ptr<int64_t>()[b],
                          .loss = losses.const_data_ptr<float>()[b],
                          .classes = {},
                          .scores = {},
                          .logits = {}};
    for (int64_t k = 0; k < listed; ++k) {
      prediction.classes.push_back(top[b][k]);
      prediction.scores.push_back(score[b][k]);
    }
    if (!config_.own_metrics.empty()) {
      const auto* row = logits.const_data_ptr<float>() + b * num_classes_;
      prediction.logits = {row, row + num_classes_};
    }
    take(std::move(prediction));
  }
}

void ClassificationEvaluation::take(Prediction prediction) {
  const auto& classes = prediction.classes;
  num_samples_ += 1;
  loss_sum_ += prediction.loss;
  top5_ += std::count(classes.begin(), classes.end(), prediction.label);
  top1_ += classes.front() == prediction.label ? 1 : 0;
  confusion_[{prediction.label, classes.front()}] += 1;
  predictions_.push_back(std::move(prediction));
}

// Numbers of all samples in three tensors: index, label and classes [M, 2 + K]; loss and scores
// [M, 1 + K]; logits [M, C], or [M, 0].
nlohmann::json ClassificationEvaluation::part() const {
  if (predictions_.empty()) return nullptr;
  const auto count = static_cast<int64_t>(predictions_.size());
  const auto listed = static_cast<int64_t>(predictions_.front().classes.size());
  const auto integers = at::zeros({count, 2 + listed}, at::kLong);
  const auto floats = at::zeros({count, 1 + listed}, at::kDouble);
  const auto logits = logits_of(predictions_).to(at::kDouble);
  auto* integer = integers.data_ptr<int64_t>();
  auto* number = floats.data_ptr<double>();
  for (const auto& prediction : predictions_) {
    *integer++ = prediction.index;
    *integer++ = prediction.label;
    integer = std::copy(prediction.classes.begin(), prediction.classes.end(), integer);
    *number++ = prediction.loss;
    number = std::copy(prediction.scores.begin(), prediction.scores.end(), number);
  }
  return {
      {"integers", json_of(integers)}, {"floats", json_of(floats)}, {"logits", json_of(logits)}};
}

void ClassificationEvaluation::join(const std::vector<nlohmann::json>& parts) {
  std::vector<Prediction> all;
  for (const auto& part : parts) {
    if (part.is_null()) continue;
    const auto integers = tensor_of(part.at("integers")), floats = tensor_of(part.at("floats"));
    const auto logits = tensor_of(part.at("logits")).to(at::kFloat);
    const auto listed = floats.size(1) - 1, num_logits = logits.size(1);
    const auto* integer = integers.const_data_ptr<int64_t>();
    const auto* number = floats.const_data_ptr<double>();
    const auto* logit = logits.const_data_ptr<float>();
    for (int64_t i = 0; i < integers.size(0); ++i) {
      all.push_back({.index = integer[0],
                     .label = integer[1],
                     .loss = number[0],
                     .classes = {integer + 2, integer + 2 + listed},
                     .scores = {number + 1, number + 1 + listed},
                     .logits = {logit, logit + num_logits}});
      integer += 2 + listed;
      number += 1 + listed;
      logit += num_logits;
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Prediction& a, const Prediction& b) { return a.index < b.index; });
  predictions_.clear();
  confusion_.clear();
  loss_sum_ = 0;
  num_samples_ = top1_ = top5_ = 0;
  for (auto& prediction : all) take(std::move(prediction));
}

void ClassificationEvaluation::finish(models::Model& /*model*/) {
  if (config_.own_metrics.empty()) return;
  const auto logits = logits_of(predictions_).reshape({num_samples_, num_classes_});
  const auto labels = at::zeros({num_samples_}, at::kLong);
  for (int64_t i = 0; i < num_samples_; ++i) {
    labels.data_ptr<int64_t>()[i] = predictions_[static_cast<size_t>(i)].label;
  }
  for (const auto& name : config_.own_metrics) {
    own_values_[name] = own_metric_of(name, logits, labels);
  }
}

std::map<std::string, double> ClassificationEvaluation::metrics() const {
  const auto samples = static_cast<double>(std::max<int64_t>(1, num_samples_));
  auto metrics = own_values_;
  metrics["loss"] = loss_sum_ / samples;
  metrics["top1"] = 100.0 * static_cast<double>(top1_) / samples;
  metrics["top5"] = 100.0 * static_cast<double>(top5_) / samples;
  return metrics;
}

}  // namespace fovea::train
