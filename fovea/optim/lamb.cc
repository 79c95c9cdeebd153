#include "fovea/optim/lamb.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fovea/optim/adamw_rule.h"
#include "fovea/optim/clip.h"
#include "fovea/optim/part_rows.h"
#include "fovea/optim/update_loops.h"

namespace fovea::optim {
namespace {

class Lamb final : public FlatOptimizer {
 public:
  Lamb(const LambConfig& config, std::vector<ParamSpec> params, Implementation implementation)
      : FlatOptimizer("lamb", std::move(params)),
        config_(config),
        exp_avg_(flat().make_buffer()),
        exp_avg_sq_(flat().make_buffer()),
        step_(flat().make_buffer()) {
    const auto first = flat().views(exp_avg_), second = flat().views(exp_avg_sq_);
    for (size_t i = 0; i < first.size(); ++i) {
      add_state("exp_avg", i, first[i]);
      add_state("exp_avg_sq", i, second[i]);
    }
    is_fused_ = use_fused(implementation, flat(), name());
  }

 private:
  void update(double lr) override {
    const auto coefficients = this->coefficients();
    if (is_fused_) {
      run_fused(coefficients);
    } else {
      run_plain(coefficients);
    }
    const auto values = flat().views(flat().param()), steps = flat().views(step_);
    const auto count = values.size();
    std::vector<double> norms(2 * count);  // of the values, then of the steps
    for (size_t i = 0; i < count; ++i) {
      decay(params()[i], values[i], steps[i], lr * params()[i].lr_scale);
      if (!is_adapted(params()[i]) || !params()[i].is_counted) continue;
      norms[i] = global_norm(values[i]);
      norms[count + i] = global_norm(steps[i]);
    }
    join_norms(norms, sum_over_parts());
    for (size_t i = 0; i < count; ++i) {
      const double ratio = is_adapted(params()[i]) ? trust_ratio(norms[i], norms[count + i]) : 1.0;
      values[i].add_(steps[i], -lr * params()[i].lr_scale * ratio);
    }
  }

  LambCoefficients coefficients() {
    const double beta1 = config_.betas[0], beta2 = config_.betas[1];
    const auto count = static_cast<double>(steps_taken());
    const bool is_corrected = config_.bias_correction;
    const double correction1 = is_corrected ? 1 - std::pow(beta1, count) : 1.0;
    const double correction2 = is_corrected ? 1 - std::pow(beta2, count) : 1.0;
    const double excess = config_.max_grad_norm > 0
                              ? std::max(1.0, gradient_norm(*this) / config_.max_grad_norm)
                              : 1.0;
    return {.grad_scale = static_cast<float>(1 / excess),
            .beta1 = static_cast<float>(beta1),
            .grad_share = static_cast<float>(config_.grad_averaging ? 1 - beta1 : 1.0),
            .beta2 = static_cast<float>(beta2),
            .one_minus_beta2 = static_cast<float>(1 - beta2),
            .inverse_root = static_cast<float>(1 / std::sqrt(correction2)),
            .eps = static_cast<float>(config_.eps),
            .inverse_first = static_cast<float>(1 / correction1)};
  }

  // Both set step_ to the moments' quotient.
  void run_fused(const LambCoefficients& coefficients) {
    const float* grad = flat().grad().const_data_ptr<float>();
    float* exp_avg = exp_avg_.data_ptr<float>();
    float* exp_avg_sq = exp_avg_sq_.data_ptr<float>();
    float* step = step_.data_ptr<float>();
    for_each_tile(flat().segments(), [&](size_t, int64_t begin, int64_t end) {
      lamb_moments(grad + begin, exp_avg + begin, exp_avg_sq + begin, step + begin, end - begin,
                   coefficients);
    });
  }

  void run_plain(const LambCoefficients& c) {
    const auto grad = flat().grad() * c.grad_scale;
    exp_avg_.mul_(c.beta1).add_(grad, c.grad_share);
    exp_avg_sq_.mul_(c.beta2).addcmul_(grad, grad, c.one_minus_beta2);
    const auto root = exp_avg_sq_.sqrt().mul_(c.inverse_root).add_(c.eps);
    step_.copy_(exp_avg_).mul_(c.inverse_first).div_(root);
  }

  void decay(const ParamSpec& spec, const at::Tensor& value, const at::Tensor& step,
             double lr) const {
    if (spec.weight_decay != 0 && config_.decoupled_decay) {
      value.mul_(1 - lr * spec.weight_decay);
    } else if (spec.weight_decay != 0) {
      step.add_(value, spec.weight_decay);
    }
  }

  bool is_adapted(const ParamSpec& spec) const {
    return spec.weight_decay != 0 || config_.always_adapt;
  }

  // 1 where either norm is zero.
  double trust_ratio(double of_value, double of_step) const {
    const double ratio = of_value > 0 && of_step > 0 ? of_value / of_step : 1.0;
    return config_.trust_clip ? std::min(1.0, ratio) : ratio;
  }

  LambConfig config_;
  at::Tensor exp_avg_, exp_avg_sq_;  // laid out like the parameters
  at::Tensor step_;                  // the same; scratch
  bool is_fused_ = true;
};

}  // namespace

void LambConfig::validate(ConfigIssues& issues) const { validate_betas(betas, issues); }

std::unique_ptr<Optimizer> make_lamb(const LambConfig& config, std::vector<ParamSpec> params,
                                     Implementation implementation) {
  return std::make_unique<Lamb>(config, std::move(params), implementation);
}

}  // namespace fovea::optim
