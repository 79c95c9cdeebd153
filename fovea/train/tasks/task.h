// What is learned: a Task turns a batch into a loss and into the metrics of an evaluation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/adaptive/config.h"
#include "fovea/data/adaptive/tree.h"
#include "fovea/data/dataset.h"
#include "fovea/models/model.h"
#include "fovea/train/evaluate/evaluation_file.h"

namespace fovea::train {

// A batch as tensors, on the model's device.
struct TensorBatch {
  // [C] names of the channels; empty: they have none.
  std::vector<std::string> variables;
  // [B, C, H, W] or [B, C, D, H, W], in the dtype of the activations; of adaptive patches perhaps
  // as the loader made them (PatchedImages).
  at::Tensor images;
  at::Tensor labels;            // [B] int64, or soft targets [B, num_classes] float32
  at::Tensor host_labels;       // labels on the CPU, to be checked there; or undefined
  models::PatchInput patches;   // with data.adaptive_patching
  models::PackedImages packed;  // in place of images, whose H and W then are 0
  at::Tensor features;          // [B, F] of a frozen backbone, in place of the above; or undefined
  // [B * T] of the batch's own buffers, which must outlive this: the way back from patches.
  std::span<const data::PatchTree> trees;
  // How parts of the samples would be cut, of the same buffers; null: they cannot be.
  const data::AdaptivePatchingConfig* patching = nullptr;
  at::Tensor patch_labels;  // [B, L, p^d] int64 classes, -1 none; undefined: no masks
  at::Tensor masks;  // [B, H, W] or [B, D, H, W] int64 classes, or as images; undefined: none
  // Both on the CPU as int32, to be looked at there; or undefined.
  at::Tensor host_patch_labels, host_masks;
  at::Tensor weights;     // [B] float32: 0 counts for nothing; undefined: every sample counts
  at::Tensor rows;        // [B] int64 on the CPU: rows of the global batch
  at::Tensor indices;     // [B] int64 on the CPU: samples of the data set
  at::Tensor stamp;       // see kernels::DropKey; undefined: made when it is needed
  at::Tensor host_stamp;  // see kernels::DropKey
};

// Calls visit(name, tensor) for each tensor of a batch, defined or not. A new field is to be named
// here as well, or this does not compile.
template <class Visit>
void for_each_tensor(TensorBatch& batch, const Visit& visit) {
  auto& [variables, images, labels, host_labels, patches, packed, features, trees, patching,
         patch_labels, masks, host_patch_labels, host_masks, weights, rows, indices, stamp,
         host_stamp] = batch;
  auto& [tokens, sizes, centers, padding, patch_images, boxes, leaf_shares, has_padding] = patches;
  auto& [packed_patches, grids] = packed;
  visit("images", images);
  visit("labels", labels);
  visit("host labels", host_labels);
  visit("patches", tokens);
  visit("sizes", sizes);
  visit("centers", centers);
  visit("padding", padding);
  visit("images of patches", patch_images);
  visit("boxes", boxes);
  visit("leaf shares", leaf_shares);
  visit("packed patches", packed_patches);
  visit("features", features);
  visit("patch labels", patch_labels);
  visit("host patch labels", host_patch_labels);
  visit("masks", masks);
  visit("host masks", host_masks);
  visit("weights", weights);
  visit("rows", rows);
  visit("indices", indices);
  visit("stamp", stamp);
  visit("host stamp", host_stamp);
}

// What of a batch the model takes. Throws ConfigError for a batch without the patches that it
// takes.
models::ModelInput input_of(const models::Model& model, const TensorBatch& batch);

// The model's forward of what it takes: images, packed images, or adaptive patches; where the batch
// has features, the model's head on these. Throws ConfigError where the batch has none of these.
at::Tensor forward(const models::Model& model, const TensorBatch& batch);

// A loss as a sum and the weight it is to be divided by. Both add up over micro-batches and ranks,
// so the gradient divided by the summed weight is that of the whole batch, also when the parts
// weigh differently.
struct LossParts {
  at::Tensor loss_sum;  // scalar float32, with a graph
  double weight = 0;    // samples, tokens or voxels that count
  // Where the losses of a batch's parts do not add up to the batch's (a Dice over it): what does,
  // [S] float64 sums with a graph, of which Task::loss_of_statistics is that loss; loss_sum is then
  // the loss of this part alone. In training only; else undefined.
  at::Tensor statistics = {};
  // Further sums by the metric's name, scalars on the model's device, where nobody waits for them;
  // divided by the summed weight they are logged in training.
  std::map<std::string, at::Tensor> sums;
  at::Tensor outputs;  // [B, ...] detached: what evaluation looks at
};

// Metrics of one evaluation, exact for any split of the data into batches.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  virtual void add(const TensorBatch& batch, const LossParts& parts) = 0;
  // What was added here, so that another process may join it (evaluation_parts.h packs tensors).
  virtual nlohmann::json part() const = 0;
  // Becomes the evaluation of all parts; this one's own is among them. Samples that are kept come
  // in the order of the data set.
  virtual void join(const std::vector<nlohmann::json>& parts) = 0;
  // "loss", "top1", "top5", ... by name.
  virtual std::map<std::string, double> metrics() const = 0;
  virtual int64_t num_samples() const = 0;
  // Called once all batches are added and all parts joined, with the model still in evaluation
  // mode: for what the evaluation makes with it itself, such as samples.
  virtual void finish(models::Model& /*model*/) {}
  // Fills in what a report shows of it besides the metrics: pictures, confusions. dataset: the one
  // that was evaluated.
  virtual void describe(EvaluationFile& /*file*/, const data::Dataset& /*dataset*/) const {}
};

// Immutable. Made for a model (make_task), whose outputs it understands.
class Task {
 public:
  virtual ~Task() = default;
  // Throws ConfigError where the samples of `dataset` lack what the task learns from.
  virtual void check_data(const data::Dataset& /*dataset*/) const {}
  // Of an evaluation; the first one names the best checkpoint unless checkpoint.best_metric does.
  virtual std::vector<std::string> metric_names() const = 0;
  // Whether loss() computes with the images or masks that adaptive patches were cut from.
  virtual bool wants_images_of_patches() const { return false; }
  // Whether the loss of a batch in training is more than the sum of its parts' (a Dice over it):
  // then loss() gives LossParts::statistics.
  virtual bool has_loss_of_batch() const { return false; }
  // statistics: those of the whole batch -> its mean loss, a scalar with a graph.
  virtual at::Tensor loss_of_statistics(const at::Tensor& statistics) const;
  // Whether the loss in training takes all that differs between batches of equal shape from tensors
  // of the batch, on the model's device, and through kernels/host_part.h: then it may be part of a
  // recorded step.
  virtual kernels::Recordable can_be_recorded() const {
    return {"the task's loss takes numbers of each step from the host"};
  }
  // What the recorded loss of a batch is made for beside its shapes, in words for the log: a batch
  // for which it is another text is not a replay of that one.
  virtual std::string recorded_for(const TensorBatch& /*batch*/) const { return {}; }
  virtual LossParts loss(models::Model& model, const TensorBatch& batch) const = 0;
  virtual std::unique_ptr<Evaluation> start_evaluation() const = 0;
};

}  // namespace fovea::train
