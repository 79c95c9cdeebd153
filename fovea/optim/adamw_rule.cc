#include "fovea/optim/adamw_rule.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace fovea::optim {
namespace {

// 1 - beta^t: what a moment that started from zero is short of.
double correction(double beta, int64_t step) {
  return 1 - std::pow(beta, static_cast<double>(step));
}

}  // namespace

kernels::AdamWCoefficients AdamWRule::coefficients(double lr, double weight_decay,
                                                   int64_t step) const {
  return {.decay = static_cast<float>(1 - lr * weight_decay),
          .beta2 = static_cast<float>(beta2),
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .inverse_root = static_cast<float>(1 / std::sqrt(correction(beta2, step))),
          .eps = static_cast<float>(eps),
          .step_size = static_cast<float>(lr / correction(beta1, step))};
}

void AdamWRule::update(PlainGroup& group, double lr, int64_t step) const {
  const double own_lr = lr * group.lr_scale;
  auto& exp_avg = group.moments[0];
  auto& exp_avg_sq = group.moments[1];
  at::_foreach_mul_(group.params, 1 - own_lr * group.weight_decay);
  at::_foreach_lerp_(exp_avg, group.grads, 1 - beta1);
  at::_foreach_mul_(exp_avg_sq, beta2);
  at::_foreach_addcmul_(exp_avg_sq, group.grads, group.grads, 1 - beta2);
  auto root = at::_foreach_sqrt(exp_avg_sq);
  at::_foreach_mul_(root, 1 / std::sqrt(correction(beta2, step)));
  at::_foreach_add_(root, eps);
  at::_foreach_addcdiv_(group.params, exp_avg, root, -own_lr / correction(beta1, step));
}

void validate_betas(const std::vector<double>& betas, ConfigIssues& issues) {
  const bool ok = betas.size() == 2 && std::all_of(betas.begin(), betas.end(), [](double beta) {
                    return beta >= 0 && beta < 1;
                  });
  if (ok) return;
  issues.add("betas",
             fmt::format("found [{}], expected two numbers in [0, 1), such as [0.9, 0.999]",
                         fmt::join(betas, ", ")));
}

}  // namespace fovea::optim
