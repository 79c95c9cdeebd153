#include "fovea/models/model_config.h"

namespace fovea {

template struct detail::OneOfValue<decltype(models::ModelConfig::value)>;
template struct detail::BoundOneOf<models::ModelConfig>;

}  // namespace fovea
