#include "fovea/optim/config.h"

namespace fovea::optim {

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config,
                                          std::vector<ParamSpec> params) {
  if (const auto* adamw = config.get_if<AdamWConfig>()) {
    return make_adamw(*adamw, std::move(params));
  }
  if (const auto* muon = config.get_if<MuonConfig>()) return make_muon(*muon, std::move(params));
  return make_sgd(*config.get_if<SgdConfig>(), std::move(params));
}

double base_lr(const OptimConfig& config) {
  return config.visit_value([](const auto& chosen) { return chosen.lr; });
}

}  // namespace fovea::optim
