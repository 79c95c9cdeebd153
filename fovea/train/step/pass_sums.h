// What the losses of a step's passes add up to, slot by slot where there are slots.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/train/step/pass_plan.h"
#include "fovea/train/step/step.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

class PassSums {
 public:
  explicit PassSums(const PassPlan& plan)
      : slots_(static_cast<size_t>(std::max<int64_t>(1, plan.of_slots.slots()))) {}

  // loss_sum: that of the pass, or its part of one of the whole batch.
  void add(const LossParts& loss, const at::Tensor& loss_sum, int64_t slot);
  // Of this rank; device: that of the numbers.
  StepSums take(const PassPlan& plan, c10::Device device) const;

 private:
  // Over the passes of a slot, or over all.
  struct Sums {
    at::Tensor loss;
    double weight = 0;
    std::map<std::string, at::Tensor> further;
  };

  static at::Tensor numbers_of(const Sums& sums, const std::vector<std::string>& names,
                               c10::Device device);

  std::vector<Sums> slots_;  // [V], or one
};

}  // namespace fovea::train
