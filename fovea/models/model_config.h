// The models a recipe can name.
#pragma once

#include "fovea/core/config_binding.h"
#include "fovea/core/config_fields.h"
#include "fovea/models/diffusion_vit_config.h"
#include "fovea/models/mae_config.h"
#include "fovea/models/sap_config.h"
#include "fovea/models/t2t_vit_config.h"
#include "fovea/models/unetr_config.h"
#include "fovea/models/vit_config.h"

namespace fovea::models {

using ModelConfig =
    OneOf<VitConfig, T2tVitConfig, MaeConfig, UnetrConfig, SapConfig, DiffusionVitConfig>;

}  // namespace fovea::models

namespace fovea {

// See Note [Configs compiled once] in core/config_binding.h.
extern template struct detail::OneOfValue<decltype(models::ModelConfig::value)>;
extern template struct detail::BoundOneOf<models::ModelConfig>;

}  // namespace fovea
