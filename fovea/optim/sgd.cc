#include "fovea/optim/sgd.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>

#include "fovea/core/error.h"
#include "fovea/optim/elementwise_optimizer.h"
#include "fovea/optim/update_loops.h"

namespace fovea::optim {
namespace {

class Sgd final : public ElementwiseOptimizer {
 public:
  Sgd(const SgdConfig& config, std::vector<ParamSpec> params, Implementation implementation)
      : ElementwiseOptimizer("sgd", std::move(params),
                             config.momentum > 0 ? std::vector<std::string>{"momentum_buffer"}
                                                 : std::vector<std::string>{},
                             implementation),
        momentum_(config.momentum),
        dampening_(config.dampening),
        nesterov_(config.nesterov) {}

 private:
  // The first gradient starts the buffer undamped.
  double grad_share() const { return steps_taken() == 1 ? 1.0 : 1.0 - dampening_; }

  void update_fused(const at::Tensor& grad, double lr) override {
    for_each_tile(flat().segments(), [&](size_t i, int64_t begin, int64_t end) {
      update_tile(params()[i], grad.const_data_ptr<float>(), begin, end, lr);
    });
  }

  // Positions [begin, end) of one parameter.
  void update_tile(const ParamSpec& spec, const float* grad, int64_t begin, int64_t end,
                   double lr) const {
    const SgdCoefficients coefficients{.lr = static_cast<float>(lr * spec.lr_scale),
                                       .weight_decay = static_cast<float>(spec.weight_decay),
                                       .momentum = static_cast<float>(momentum_),
                                       .grad_share = static_cast<float>(grad_share()),
                                       .nesterov = nesterov_};
    float* param = flat().param().data_ptr<float>() + begin;
    if (momentum_ > 0) {
      sgd_momentum_update(param, grad + begin, moment(0).data_ptr<float>() + begin, end - begin,
                          coefficients);
    } else {
      sgd_update(param, grad + begin, end - begin, coefficients);
    }
  }

  void update_group(PlainGroup& group, double lr) override {
    auto update = at::_foreach_add(group.grads, group.params, group.weight_decay);
    if (momentum_ > 0) {
      auto& buffer = group.moments[0];
      at::_foreach_mul_(buffer, momentum_);
      at::_foreach_add_(buffer, update, grad_share());
      if (nesterov_) {
        at::_foreach_add_(update, buffer, momentum_);
      } else {
        update = buffer;
      }
    }
    at::_foreach_add_(group.params, update, -lr * group.lr_scale);
  }

  double momentum_, dampening_;
  bool nesterov_;
};

}  // namespace

void SgdConfig::validate(ConfigIssues& issues) const {
  if (nesterov && (momentum <= 0 || dampening != 0)) {
    issues.add("nesterov", {"momentum", "dampening"},
               fmt::format("true with momentum={} and dampening={}; expected momentum > 0 and "
                           "dampening=0",
                           momentum, dampening));
  }
}

std::unique_ptr<Optimizer> make_sgd(const SgdConfig& config, std::vector<ParamSpec> params,
                                    Implementation implementation) {
  return std::make_unique<Sgd>(config, std::move(params), implementation);
}

}  // namespace fovea::optim
