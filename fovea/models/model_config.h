// The models a recipe can name.
#pragma once

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"
#include "fovea/models/diffusion_vit_config.h"
#include "fovea/models/mae_config.h"
#include "fovea/models/own_model_config.h"
#include "fovea/models/sap_config.h"
#include "fovea/models/t2t_vit_config.h"
#include "fovea/models/unetr_config.h"
#include "fovea/models/vit_config.h"

namespace fovea::models {

// The last one stands for all that a program has registered.
using ModelConfig = OneOf<VitConfig, T2tVitConfig, MaeConfig, UnetrConfig, SapConfig,
                          DiffusionVitConfig, OwnModelConfig>;

}  // namespace fovea::models

namespace fovea {

// Alternatives are those of the library, and behind them the registered ones.
template <>
struct detail::BoundOneOf<models::ModelConfig> final : OneOfBinding {
  explicit BoundOneOf(models::ModelConfig& t) : target(t) {}
  std::string_view tag() const override;
  std::vector<std::string> names() const override;
  size_t index() const override;
  void select(size_t index) const override;
  std::unique_ptr<SectionBinding> chosen() const override;
  ConfigPrototype prototype(size_t index) const override;
  models::ModelConfig& target;
};

template <>
std::string_view detail::OneOfValue<decltype(models::ModelConfig::value)>::name() const;

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::OneOfValue<decltype(models::ModelConfig::value)>;

}  // namespace fovea
