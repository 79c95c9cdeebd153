// A loss that is no sum over samples, over micro-batches and ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "fovea/parallel/communicator.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

// Note [Losses of the whole batch]
// A loss that is no sum over samples is a function of sums that are (LossParts::statistics). Those
// of the whole batch come first, over all micro-batches and ranks; the loss's gradient in them is
// then what each part's own sums go backward with, and the parts' gradients add up to that of the
// whole batch. A part that is one pass needs no more for it; several are run once more before, for
// their sums alone.
class LossOfBatch {
 public:
  LossOfBatch(const Task& task, parallel::Communicator& ranks) : task_(task), ranks_(ranks) {}

  void add(const LossParts& parts);
  // Once all passes are added. Collective. is_any_empty: whether a rank has added none; device:
  // that of the statistics.
  void finish(bool is_any_empty, c10::Device device);
  bool is_whole() const { return is_whole_; }
  const at::Tensor& loss() const { return loss_; }  // mean of the batch
  // Of the batch's summed loss in the statistics.
  const at::Tensor& gradient() const { return gradient_; }

 private:
  const Task& task_;
  parallel::Communicator& ranks_;
  at::Tensor sums_, loss_, gradient_;
  double weight_ = 0;
  bool is_whole_ = false;
};

}  // namespace fovea::train
