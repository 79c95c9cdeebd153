#include "fovea/optim/adamw.h"

#include "fovea/optim/adamw_rule.h"

namespace fovea::optim {
namespace {

class AdamW final : public ElementwiseOptimizer {
 public:
  AdamW(const AdamWConfig& config, std::vector<ParamSpec> params, Implementation implementation)
      : ElementwiseOptimizer("adamw", std::move(params), {"exp_avg", "exp_avg_sq"}, implementation),
        rule_{config.betas.at(0), config.betas.at(1), config.eps} {}

 private:
  void update_segment(const ParamSpec& spec, int64_t begin, int64_t end, double lr) override {
    adamw_update(param_data() + begin, grad_data() + begin, moment_data(0) + begin,
                 moment_data(1) + begin, end - begin,
                 rule_.coefficients(lr * spec.lr_scale, spec.weight_decay, steps_taken()));
  }

  void update_group(PlainGroup& group, double lr) override {
    rule_.update(group, lr, steps_taken());
  }

  AdamWRule rule_;
};

}  // namespace

void AdamWConfig::validate(ConfigIssues& issues) const { validate_betas(betas, issues); }

std::unique_ptr<Optimizer> make_adamw(const AdamWConfig& config, std::vector<ParamSpec> params,
                                      Implementation implementation) {
  return std::make_unique<AdamW>(config, std::move(params), implementation);
}

}  // namespace fovea::optim
