// B batch, K classes; sides are H, W or D, H, W.
#include "fovea/train/tasks/segmentation.h"

#include <ATen/ops/cat.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "fovea/core/error.h"
#include "fovea/data/batch/adaptive_patch_filler.h"
#include "fovea/kernels/host_part.h"
#include "fovea/models/segmenter.h"
#include "fovea/train/evaluate/patch_images.h"
#include "fovea/train/tasks/own_metric.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

namespace {

// losses: [B].
LossParts summed(const at::Tensor& losses, const TensorBatch& batch) {
  LossParts parts;
  const bool is_weighted = batch.weights.defined();
  parts.loss_sum = (is_weighted ? losses * batch.weights : losses).sum();
  parts.weight =
      is_weighted ? batch.weights.sum().item<double>() : static_cast<double>(losses.size(0));
  return parts;
}

void check_range(const at::Tensor& labels, int64_t num_classes) {
  const auto largest = labels.max().item<int64_t>();
  if (largest < num_classes) return;
  fail<DataError>(
      "class {} in a mask; expected classes 0 to {}: set model.num_classes to the number of "
      "classes of the data, or list the number under ignore_values",
      largest, num_classes - 1);
}

// Each window is cut into patches of its own. windows: [n, C, window] -> [n, K, window]
at::Tensor segment_windows(const models::Model& model, const at::Tensor& windows,
                           const std::vector<std::string>& channels,
                           const data::AdaptivePatchingConfig& patching) {
  const auto values = windows.to(at::kCPU, at::kFloat).contiguous();
  auto batch = data::cut_volumes(
      patching, {values.const_data_ptr<float>(), static_cast<size_t>(values.numel())},
      values.sizes().vec());
  const auto tensors = to_tensors(batch, 0, batch.size(),
                                  {.device = windows.device(), .dtype = windows.scalar_type()});
  const auto logits = model.forward({tensors.patches, channels});
  if (!models::segmenter_of(model).gives_patches()) return logits;
  return logits_of_patches(logits, tensors.trees, windows.sizes().slice(2));
}

// Whether adaptive patches of the whole would be others than the model was trained on: those of
// images are cut by their bytes, which a window has no longer.
bool is_cut_into_windows(const models::Model& model, const TensorBatch& batch) {
  const auto window = models::segmenter_of(model).window_size();
  return model.takes_patches() && batch.patching != nullptr &&
         batch.images.sizes().slice(2) != at::IntArrayRef(window);
}

}  // namespace

void SegmentationConfig::validate(ConfigIssues& issues) const {
  check_own_metrics(own_metrics, {"loss", "dice", "iou", "hd95"}, issues);
  if (spacing.size() <= 3 && !spacing.empty()) return;
  issues.add("spacing",
             fmt::format("{} numbers; expected one, or one for each axis", spacing.size()));
}

at::Tensor segment_whole(const models::Model& model, const models::ModelInput& images,
                         at::IntArrayRef window, const SlidingWindowConfig& config) {
  const auto& values = images.images();
  if (values.sizes().slice(2) == window) return model.forward(images);
  return sliding_window(values, window, config, [&](const at::Tensor& windows) {
    return model.forward(images.with_tensor(windows));
  });
}

at::Tensor segment_whole(const models::Model& model, const TensorBatch& batch,
                         const SlidingWindowConfig& config) {
  const auto& segmenter = models::segmenter_of(model);
  const auto window = segmenter.window_size();
  if (!model.takes_patches()) {
    return segment_whole(model, input_of(model, batch), window, config);
  }
  if (is_cut_into_windows(model, batch)) {
    return sliding_window(images_on_device(batch), window, config, [&](const at::Tensor& windows) {
      return segment_windows(model, windows, batch.variables, *batch.patching);
    });
  }
  const auto logits = forward(model, batch);  // of pixels: refuses images of another size
  if (!segmenter.gives_patches()) return logits;
  return logits_of_patches(logits, batch.trees, batch.images.sizes().slice(2));
}

at::Tensor logits_of_patches(const at::Tensor& logits, std::span<const data::PatchTree> trees,
                             at::IntArrayRef sides) {
  return images_of_patches(logits, trees, sides, /*is_tree_of_channel=*/false);
}

SegmentationTask::SegmentationTask(const SegmentationConfig& config, const models::Model& model)
    : config_(config),
      num_classes_(model.num_classes()),
      gives_patches_(models::segmenter_of(model).gives_patches()) {
  if (config.ignore_label && *config.ignore_label >= num_classes_) {
    fail<ConfigError>("task.ignore_label: found {}, but the model has classes 0 to {}",
                      *config.ignore_label, num_classes_ - 1);
  }
}

void SegmentationTask::check_data(const data::Dataset& dataset) const {
  find_own_metrics(config_.own_metrics);
  if (!dataset.has_masks()) {
    fail<ConfigError>(
        "task: segmentation needs a mask for each sample, a class for each pixel, but {} has none; "
        "give `masks`, or choose another task",
        dataset.size() > 0 ? dataset.describe(0) : "the data");
  }
  const auto found = dataset.num_classes();
  if (found == 0 || found == num_classes_) return;
  fail<ConfigError>(
      "model.num_classes: found {}, but the masks have {} classes; set model.num_classes={}",
      num_classes_, found, found);
}

std::vector<std::string> SegmentationTask::metric_names() const {
  std::vector<std::string> names = {"dice", "iou", "loss"};
  if (config_.hd95) names.emplace_back("hd95");
  for (const auto* score : {"dice", "iou"}) {
    for (int64_t label = 0; label < num_classes_; ++label) {
      names.push_back(fmt::format("{}_{}", score, label));
    }
  }
  names.insert(names.end(), config_.own_metrics.begin(), config_.own_metrics.end());
  return names;
}

// [B, sides], below 0 where a voxel does not count.
at::Tensor SegmentationTask::labels_of(const TensorBatch& batch) const {
  if (!batch.masks.defined()) {
    fail<DataError>("segmentation: a batch without masks; expected a class for each pixel");
  }
  const auto sides = batch.images.sizes().slice(2);
  if (batch.masks.sizes().slice(1) != sides) {
    fail<DataError>("a mask of [{}] for an image of [{}]; expected the same sides",
                    fmt::join(batch.masks.sizes().slice(1), ", "), fmt::join(sides, ", "));
  }
  check_classes(batch.masks, batch.host_masks);
  const auto& input = batch.patches.tokens.defined() ? batch.patches.tokens : batch.images;
  return without_ignored(batch.masks.to(input.device(), at::kLong));
}

at::Tensor SegmentationTask::host_labels_of(const TensorBatch& batch) const {
  return gives_patches_ ? batch.host_patch_labels : batch.host_masks;
}

// None: the host does not know it.
std::optional<bool> SegmentationTask::all_count(const TensorBatch& batch) const {
  const auto labels = host_labels_of(batch);
  if (!labels.defined()) return {};
  const auto ignored = config_.ignore_label.value_or(-1);
  const std::span all(labels.const_data_ptr<int32_t>(), static_cast<size_t>(labels.numel()));
  return std::none_of(all.begin(), all.end(),
                      [&](int32_t label) { return label < 0 || label == ignored; });
}

std::string SegmentationTask::recorded_for(const TensorBatch& batch) const {
  return all_count(batch).value_or(false) ? "every pixel counts" : "pixels that do not count";
}

// A check on a GPU would have the host wait for it.
void SegmentationTask::check_classes(const at::Tensor& labels,
                                     const at::Tensor& host_labels) const {
  kernels::host_check([labels = host_labels.defined() ? host_labels : labels,
                       num_classes = num_classes_] { check_range(labels, num_classes); });
}

at::Tensor SegmentationTask::without_ignored(const at::Tensor& labels) const {
  if (!config_.ignore_label) return labels;
  return labels.masked_fill(labels.eq(*config_.ignore_label), -1);
}

// [B]. A loss of the whole batch is taken sample by sample, so that an evaluation does not depend
// on the batch size.
at::Tensor SegmentationTask::losses_of(const at::Tensor& logits, const at::Tensor& labels,
                                       const TensorBatch& batch) const {
  if (config_.loss.adds_up()) {
    return segmentation_losses(logits, labels, config_.loss, batch.weights, all_count(batch));
  }
  std::vector<at::Tensor> losses;
  for (int64_t b = 0; b < logits.size(0); ++b) {
    losses.push_back(
        segmentation_losses(logits.narrow(0, b, 1), labels.narrow(0, b, 1), config_.loss));
  }
  return at::cat(losses);
}

LossParts SegmentationTask::parts_of(const at::Tensor& logits, const at::Tensor& labels,
                                     const TensorBatch& batch, bool is_training) const {
  if (!is_training || config_.loss.adds_up()) {
    return summed(losses_of(logits, labels, batch), batch);
  }
  const auto statistics =
      batch_statistics(logits, labels, config_.loss, batch.weights, all_count(batch));
  const auto loss = loss_of_statistics(statistics).to(at::kFloat);
  auto parts = summed(loss.expand({logits.size(0)}), batch);
  parts.statistics = statistics;
  return parts;
}

LossParts SegmentationTask::loss_of_patches(models::Model& model, const TensorBatch& batch) const {
  const bool is_training = model.is_training();
  const auto logits = forward(model, batch);  // [B, K, L, p^d]
  if (!batch.patch_labels.defined()) {
    fail<DataError>("segmentation: a batch without masks; expected a class for each pixel");
  }
  check_classes(batch.patch_labels, batch.host_patch_labels);
  const auto labels = without_ignored(batch.patch_labels);  // [B, L, p^d]
  auto parts = parts_of(logits, labels, batch, is_training);
  parts.outputs = logits.detach();
  if (!is_training) {
    parts.outputs = logits_of_patches(logits, batch.trees, batch.images.sizes().slice(2));
  }
  return parts;
}

LossParts SegmentationTask::loss(models::Model& model, const TensorBatch& batch) const {
  const bool is_training = model.is_training();
  if (gives_patches_ && (is_training || !is_cut_into_windows(model, batch))) {
    return loss_of_patches(model, batch);
  }
  const auto labels = labels_of(batch);
  // [B, K, sides]
  const auto logits = is_training
                          ? forward(model, batch)
                          : segment_whole(model, batch, config_.sliding_window).to(labels.device());
  auto whole = batch;
  whole.host_patch_labels.reset();  // what they say of patches is not said of voxels
  auto parts = parts_of(logits, labels, whole, is_training);
  parts.outputs = logits.detach();
  return parts;
}

// An evaluation by itself (`fovea eval`) has nobody who checks the data first.
std::unique_ptr<Evaluation> SegmentationTask::start_evaluation() const {
  find_own_metrics(config_.own_metrics);
  return std::make_unique<SegmentationEvaluation>(config_, num_classes_);
}

}  // namespace fovea::train
