#include "fovea/models/model.h"

#include "fovea/core/error.h"

namespace fovea::models {

at::Tensor Model::forward_patches(const PatchInput& /*patches*/) {
  fail<ConfigError>(
      "the model takes images, not adaptive patches; leave data.adaptive_patching out, or set "
      "the model's patching: adaptive");
}

}  // namespace fovea::models
