#include "fovea/optim/adamw.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/optim/flat_optimizer.h"
#include "fovea/optim/update_loops.h"

namespace fovea::optim {
namespace {

enum Moment : size_t { kExpAvg, kExpAvgSq };

class AdamW final : public FlatOptimizer {
 public:
  AdamW(const AdamWConfig& config, std::vector<ParamSpec> params, Implementation implementation)
      : FlatOptimizer("adamw", std::move(params), {"exp_avg", "exp_avg_sq"}, implementation),
        beta1_(config.betas.at(0)),
        beta2_(config.betas.at(1)),
        eps_(config.eps) {}

 private:
  double first_correction() const { return 1 - std::pow(beta1_, steps_taken()); }
  double second_correction() const { return 1 - std::pow(beta2_, steps_taken()); }

  void update_segment(const ParamSpec& spec, int64_t begin, int64_t end, double lr) override {
    const double own_lr = lr * spec.lr_scale;
    const AdamWCoefficients coefficients{
        .decay = static_cast<float>(1 - own_lr * spec.weight_decay),
        .beta2 = static_cast<float>(beta2_),
        .one_minus_beta1 = static_cast<float>(1 - beta1_),
        .one_minus_beta2 = static_cast<float>(1 - beta2_),
        .inverse_root = static_cast<float>(1 / std::sqrt(second_correction())),
        .eps = static_cast<float>(eps_),
        .step_size = static_cast<float>(own_lr / first_correction())};
    adamw_update(param_data() + begin, grad_data() + begin, moment_data(kExpAvg) + begin,
                 moment_data(kExpAvgSq) + begin, end - begin, coefficients);
  }

  void update_group(PlainGroup& group, double lr) override {
    const double own_lr = lr * group.lr_scale;
    auto& exp_avg = group.moments[kExpAvg];
    auto& exp_avg_sq = group.moments[kExpAvgSq];
    at::_foreach_mul_(group.params, 1 - own_lr * group.weight_decay);
    at::_foreach_lerp_(exp_avg, group.grads, 1 - beta1_);
    at::_foreach_mul_(exp_avg_sq, beta2_);
    at::_foreach_addcmul_(exp_avg_sq, group.grads, group.grads, 1 - beta2_);
    auto root = at::_foreach_sqrt(exp_avg_sq);
    at::_foreach_mul_(root, 1 / std::sqrt(second_correction()));
    at::_foreach_add_(root, eps_);
    at::_foreach_addcdiv_(group.params, exp_avg, root, -own_lr / first_correction());
  }

  double beta1_, beta2_, eps_;
};

}  // namespace

void AdamWConfig::validate(ConfigIssues& issues) const {
  const bool ok =
      betas.size() == 2 && betas[0] >= 0 && betas[0] < 1 && betas[1] >= 0 && betas[1] < 1;
  if (!ok) {
    std::string found;
    for (const double beta : betas) found += fmt::format("{}{}", found.empty() ? "" : ", ", beta);
    issues.add(
        "betas",
        fmt::format("found [{}], expected two numbers in [0, 1), such as [0.9, 0.999]", found));
  }
}

std::unique_ptr<Optimizer> make_adamw(const AdamWConfig& config, std::vector<ParamSpec> params,
                                      Implementation implementation) {
  return std::make_unique<AdamW>(config, std::move(params), implementation);
}

}  // namespace fovea::optim
