#include "fovea/nn/give_data.h"

#include <fmt/ranges.h>

#include "fovea/core/error.h"

namespace fovea::nn {

void give_data(const at::Tensor& parameter, const at::Tensor& data) {
  FOVEA_CHECK(parameter.sizes() == data.sizes() && !parameter.grad().defined(),
              "a parameter of shape [{}] was given data of shape [{}]; expected its own, and no "
              "gradient yet",
              fmt::join(parameter.sizes(), ", "), fmt::join(data.sizes(), ", "));
  if (!parameter.is_meta() || data.is_meta()) return parameter.set_data(data);
  // What set_data does behind its check. Nothing has asked for the gradient's accumulator yet.
  parameter.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());
}

}  // namespace fovea::nn
