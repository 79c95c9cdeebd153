#include "fovea/checkpoint/state.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "fovea/core/error.h"

namespace fovea::checkpoint {

void check_same_shapes(const Shapes& model, const Shapes& saved) {
  for (const auto& [name, shape] : saved) {
    if (!model.contains(name)) {
      fail<CheckpointError>(
          "the checkpoint has '{}', which the model has not; expected a checkpoint of this model",
          name);
    }
  }
  for (const auto& [name, shape] : model) {
    const auto found = saved.find(name);
    if (found == saved.end()) {
      fail<CheckpointError>(
          "the checkpoint lacks '{}', which the model has; expected a checkpoint of this model",
          name);
    }
    if (found->second != shape) {
      fail<CheckpointError>(
          "'{}' has shape [{}] in the checkpoint and [{}] in the model; expected a checkpoint of "
          "this model",
          name, fmt::join(found->second, ", "), fmt::join(shape, ", "));
    }
  }
}

void copy_into(torch::nn::Module& model, const TensorMap& saved) {
  const at::NoGradGuard no_grad;
  const auto parameters = model.named_parameters();
  Shapes expected, found;
  for (const auto& item : parameters) expected[item.key()] = item.value().sizes().vec();
  for (const auto& [name, tensor] : saved) found[name] = tensor.sizes().vec();
  check_same_shapes(expected, found);
  for (const auto& item : parameters) item.value().copy_(saved.at(item.key()));
}

}  // namespace fovea::checkpoint
