// What is learned: a Task turns a batch into a loss and into the metrics of an evaluation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/models/model.h"

namespace fovea::train {

// A batch as tensors, on the model's device.
struct TensorBatch {
  at::Tensor images;   // [B, C, H, W] or [B, C, D, H, W], in the dtype of the activations
  at::Tensor labels;   // [B] int64, or soft targets [B, num_classes] float32
  at::Tensor weights;  // [B] float32: 0 counts for nothing; undefined: every sample counts
  at::Tensor rows;     // [B] int64 on the CPU: rows of the global batch
  at::Tensor indices;  // [B] int64 on the CPU: samples of the data set
};

// A loss as a sum and the weight it is to be divided by. Both add up over micro-batches and ranks,
// so the gradient divided by the summed weight is that of the whole batch, also when the parts
// weigh differently.
struct LossParts {
  at::Tensor loss_sum;  // scalar float32, with a graph
  double weight = 0;    // samples, tokens or voxels that count
  std::map<std::string, double>
      sums;            // "correct" ...: further sums over the batch, for the progress line
  at::Tensor outputs;  // [B, ...] detached: what evaluation looks at
};

// Metrics of one evaluation, exact for any split of the data into batches.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  virtual void add(const TensorBatch& batch, const LossParts& parts) = 0;
  // "loss", "top1", "top5", ... by name.
  virtual std::map<std::string, double> metrics() const = 0;
  virtual int64_t num_samples() const = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual LossParts loss(models::Model& model, const TensorBatch& batch) const = 0;
  virtual std::unique_ptr<Evaluation> start_evaluation() const = 0;
};

}  // namespace fovea::train
