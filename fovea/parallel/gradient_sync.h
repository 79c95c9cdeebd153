// How gradients of ranks become their sums, told by whoever runs the backward passes of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "fovea/parallel/model_parallel.h"

namespace fovea::parallel {

// Data parallel is GradientReducer (ddp.h), or ShardedParams (sharded_params.h) where parameters
// are shared out; a model whose layers are, has a SumOverModel about it.
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  // Around every backward; is_last: of the step.
  virtual void before_backward(bool is_last) = 0;
  virtual void after_backward() = 0;
  // After the last backward of a step, also on a rank that ran none: gradients are the sums over
  // the ranks then. Collective. Throws RankError.
  virtual void finish() = 0;

  // Whether ranks wait for each other within a forward or a backward, so that none can run one
  // anew by itself.
  virtual bool meets_in_passes() const = 0;
};

// The sums over tp and cp after those of data parallel.
class SumOverModel final : public GradientSync {
 public:
  // leaves: see ModelParallel::sum_gradients. The others outlive this.
  SumOverModel(GradientSync& of_data, const ModelParallel& model_parallel,
               std::vector<std::pair<std::string, at::Tensor>> leaves)
      : of_data_(of_data), model_parallel_(model_parallel), leaves_(std::move(leaves)) {}

  void before_backward(bool is_last) override { of_data_.before_backward(is_last); }
  void after_backward() override { of_data_.after_backward(); }
  void finish() override {
    of_data_.finish();
    model_parallel_.sum_gradients(leaves_);
  }
  bool meets_in_passes() const override { return true; }

 private:
  GradientSync& of_data_;
  const ModelParallel& model_parallel_;
  std::vector<std::pair<std::string, at::Tensor>> leaves_;
};

}  // namespace fovea::parallel
