#include "fovea/data/config.h"

namespace fovea {

template struct detail::BoundSection<data::DataConfig>;

}  // namespace fovea
