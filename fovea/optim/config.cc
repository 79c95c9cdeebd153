#include "fovea/optim/config.h"

namespace fovea::optim {

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config,
                                          std::vector<ParamSpec> params) {
  if (const auto* adamw = config.get_if<AdamWConfig>()) {
    return make_adamw(*adamw, std::move(params));
  }
  if (const auto* lamb = config.get_if<LambConfig>()) return make_lamb(*lamb, std::move(params));
  if (const auto* adafactor = config.get_if<AdafactorConfig>()) {
    return make_adafactor(*adafactor, std::move(params));
  }
  if (const auto* muon = config.get_if<MuonConfig>()) return make_muon(*muon, std::move(params));
  return make_sgd(*config.get_if<SgdConfig>(), std::move(params));
}

double base_lr(const OptimConfig& config) {
  return config.visit_value([](const auto& chosen) { return chosen.lr; });
}

int64_t states_per_parameter(const OptimConfig& config) {
  if (const auto* sgd = config.get_if<SgdConfig>()) return sgd->momentum > 0 ? 1 : 0;
  if (config.get_if<AdafactorConfig>()) return 0;
  return config.get_if<MuonConfig>() ? 1 : 2;
}

}  // namespace fovea::optim

namespace fovea {

template struct detail::OneOfValue<decltype(optim::OptimConfig::value)>;
template struct detail::BoundOneOf<optim::OptimConfig>;

}  // namespace fovea
