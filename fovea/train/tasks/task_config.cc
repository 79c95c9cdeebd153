#include "fovea/train/tasks/task_config.h"

namespace fovea {

template struct detail::OneOfValue<decltype(train::TaskConfig::value)>;
template struct detail::BoundOneOf<train::TaskConfig>;

}  // namespace fovea
