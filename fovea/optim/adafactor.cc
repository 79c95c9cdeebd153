// R rows and C columns: the last two dims of a parameter; dims in front of them are a batch.
#include "fovea/optim/adafactor.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/optim/clip.h"
#include "fovea/optim/flat_optimizer.h"

namespace fovea::optim {
namespace {

struct Factored {
  at::Tensor value, grad;
  at::Tensor row_var, col_var;  // [..., R, 1] and [..., 1, C]; undefined for fewer than two dims
  at::Tensor variance;          // as value, for fewer than two dims
};

double root_mean_square(const at::Tensor& x) {
  return global_norm(x) / std::sqrt(static_cast<double>(x.numel()));
}

// Over the last dim, of a copy in which that is contiguous: such sums are one thread's each.
at::Tensor mean_square(const at::Tensor& x) {
  return x.square().contiguous().sum(-1, /*keepdim=*/true).div_(x.size(-1));
}

class Adafactor final : public FlatOptimizer {
 public:
  Adafactor(const AdafactorConfig& config, std::vector<ParamSpec> params)
      : FlatOptimizer("adafactor", std::move(params)),
        config_(config),
        eps1_(config.eps1.value_or(std::numeric_limits<float>::epsilon())) {
    const auto values = flat().views(flat().param()), grads = flat().views(flat().grad());
    for (size_t i = 0; i < values.size(); ++i) {
      parts_.push_back({values[i], grads[i], {}, {}, {}});
      auto& part = parts_.back();
      if (values[i].dim() < 2) {
        part.variance = at::zeros_like(values[i]);
        add_state("variance", i, part.variance);
        continue;
      }
      auto rows = values[i].sizes().vec(), columns = rows;
      rows.back() = 1;
      columns[columns.size() - 2] = 1;
      part.row_var = at::zeros(rows, values[i].options());
      part.col_var = at::zeros(columns, values[i].options());
      add_state("row_var", i, part.row_var);
      add_state("col_var", i, part.col_var);
    }
  }

 private:
  void update(double lr) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].value.numel() > 0) update_part(params()[i], parts_[i], lr);
    }
  }

  void update_part(const ParamSpec& spec, Factored& part, double lr) const {
    const auto step = static_cast<double>(steps_taken());
    const double own_lr = lr * spec.lr_scale;
    const double relative = std::min(own_lr, 1 / std::sqrt(step));
    const double size = std::max(config_.eps2, root_mean_square(part.value)) * relative;
    if (spec.weight_decay != 0) part.value.mul_(1 - own_lr * spec.weight_decay);
    const auto direction = second_moment(part, std::pow(step, config_.beta2_decay))
                               .clamp_min_(eps1_ * eps1_)
                               .rsqrt_()
                               .mul_(part.grad);
    const double excess = std::max(1.0, root_mean_square(direction) / config_.clip_threshold);
    part.value.add_(direction, -size / excess);
  }

  // Takes the gradient into the second moment. -> its estimate, as value; a tensor of its own.
  at::Tensor second_moment(Factored& part, double share) const {
    if (part.variance.defined()) {
      part.variance.lerp_(part.grad.square(), share);
      return part.variance.clone();
    }
    part.row_var.lerp_(mean_square(part.grad), share);
    part.col_var.lerp_(mean_square(part.grad.transpose(-2, -1)).transpose(-2, -1), share);
    const auto mean = part.row_var.transpose(-2, -1).contiguous().mean(-1, /*keepdim=*/true);
    return (part.row_var * part.col_var).div_(mean.clamp_min(eps1_));  // [..., R, C]
  }

  AdafactorConfig config_;
  double eps1_;
  std::vector<Factored> parts_;  // as params()
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const AdafactorConfig& config,
                                          std::vector<ParamSpec> params) {
  return std::make_unique<Adafactor>(config, std::move(params));
}

}  // namespace fovea::optim
