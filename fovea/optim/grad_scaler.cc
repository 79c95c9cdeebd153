#include "fovea/optim/grad_scaler.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::optim {

void GradScalerConfig::validate(ConfigIssues& issues) const {
  if (init_scale >= min_scale) return;
  issues.add("init_scale", {"min_scale"},
             fmt::format("found {}, below min_scale {}, at which the run ends; expected more",
                         init_scale, min_scale));
}

GradScaler::GradScaler(const GradScalerConfig& config)
    : config_(config), scale_(static_cast<float>(config.init_scale)) {}

void GradScaler::expect_weight(double weight) {
  divisor_ = weight > 0 ? std::exp2(std::round(std::log2(weight))) : 1;
}

void GradScaler::update(bool is_finite) {
  if (!is_finite) {
    scale_ = static_cast<float>(scale_ * config_.backoff_factor);
    num_good_ = 0;
    num_skipped_ += 1;
    return;
  }
  num_good_ += 1;
  if (num_good_ < config_.growth_interval) return;
  num_good_ = 0;
  const auto grown = static_cast<float>(scale_ * config_.growth_factor);
  if (std::isfinite(grown)) scale_ = grown;
}

nlohmann::json GradScaler::state() const {
  return {{"scale", scale_},
          {"num_good", num_good_},
          {"num_skipped", num_skipped_},
          {"divisor", divisor_}};
}

void GradScaler::load_state(const nlohmann::json& state) {
  try {
    const JsonValue value(state, "grad_scaler");
    scale_ = static_cast<float>(value.at("scale").number());
    num_good_ = value.at("num_good").integer();
    num_skipped_ = value.at("num_skipped").integer();
    divisor_ = value.at("divisor").number();
    if (!(scale_ > 0)) value.at("scale").refuse("a number above 0");
  } catch (const DataError& error) {
    fail<CheckpointError>("the state of the loss scale is damaged: {}", error.what());
  }
}

}  // namespace fovea::optim
