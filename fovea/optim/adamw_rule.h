// AdamW's update of given tensors: for the optimizer of that name and for those that treat some of
// their parameters so.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/kernels/elementwise/update_elements.h"
#include "fovea/optim/elementwise_optimizer.h"

namespace fovea::optim {

struct AdamWRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;

  // What `adamw_update` takes for step `step`, counted from 1. `lr` is the parameter's own.
  kernels::AdamWCoefficients coefficients(double lr, double weight_decay, int64_t step) const;

  // The same with ATen's operators. Moments 0 and 1 of the group are exp_avg and exp_avg_sq; `lr`
  // is before the group's lr_scale.
  void update(PlainGroup& group, double lr, int64_t step) const;
};

// Reports `betas` unless they are two numbers in [0, 1).
void validate_betas(const std::vector<double>& betas, ConfigIssues& issues);

}  // namespace fovea::optim
