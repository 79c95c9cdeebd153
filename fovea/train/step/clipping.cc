#include "fovea/train/step/clipping.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/optim/clip.h"

namespace fovea::train {
namespace {

// -> their norm before.
double clip_in_place(optim::Optimizer& optimizer, const StepOptions& options) {
  if (options.max_grad_ratio == 0) {
    return optim::clip_gradients(optimizer, options.max_grad_norm, options.max_grad_value);
  }
  const double norm = optim::gradient_norm(optimizer);
  if (!std::isfinite(norm)) return norm;
  auto params = optimizer.params();
  std::erase_if(params,
                [](const optim::ParamSpec& spec) { return spec.name.starts_with("head."); });
  optim::clip_gradients_adaptively(params, options.max_grad_ratio, optimizer.sum_over_parts());
  optim::clip_gradients(optimizer, options.max_grad_norm, options.max_grad_value);
  return norm;
}

}  // namespace

bool clips_in_one_pass(const StepParts& parts) {
  const auto grad = parts.optimizer.flat_grad();
  return parts.options.max_grad_ratio == 0 && parts.options.max_grad_value == 0 &&
         grad.scalar_type() == at::kFloat && kernels::has_adamw_step(grad.device());
}

at::Tensor clip_of_step(const StepParts& parts, double scale, const at::Tensor& loss,
                        const at::Tensor& before) {
  const at::NoGradGuard no_grad;
  const auto& options = parts.options;
  const auto grad = parts.optimizer.flat_grad();
  if (clips_in_one_pass(parts)) {
    return optim::clip_state(parts.optimizer, {.max_norm = options.max_grad_norm,
                                               .grad_scale = scale,
                                               .loss = loss.to(grad.device()),
                                               .before = before});
  }
  grad.mul_(scale);
  const double norm = clip_in_place(parts.optimizer, options);
  const bool is_finite = std::isfinite(norm) && std::isfinite(loss.item<double>());
  return optim::clipped_state(norm, is_finite, grad.device());
}

}  // namespace fovea::train
