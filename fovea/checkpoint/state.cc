#include "fovea/checkpoint/state.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "fovea/core/error.h"

namespace fovea::checkpoint {

void check_same_names_and_shapes(const torch::nn::Module& model, const TensorMap& saved) {
  const auto parameters = model.named_parameters();
  for (const auto& [name, tensor] : saved) {
    if (!parameters.contains(name)) {
      fail<CheckpointError>(
          "the checkpoint has '{}', which the model has not; expected a checkpoint of this model",
          name);
    }
  }
  for (const auto& item : parameters) {
    const auto found = saved.find(item.key());
    if (found == saved.end()) {
      fail<CheckpointError>(
          "the checkpoint lacks '{}', which the model has; expected a checkpoint of this model",
          item.key());
    }
    if (found->second.sizes() != item.value().sizes()) {
      fail<CheckpointError>(
          "'{}' has shape [{}] in the checkpoint and [{}] in the model; expected a checkpoint of "
          "this model",
          item.key(), fmt::join(found->second.sizes(), ", "),
          fmt::join(item.value().sizes(), ", "));
    }
  }
}

void copy_into(torch::nn::Module& model, const TensorMap& saved) {
  check_same_names_and_shapes(model, saved);
  const at::NoGradGuard no_grad;
  const auto parameters = model.named_parameters();
  for (const auto& item : parameters) item.value().copy_(saved.at(item.key()));
}

}  // namespace fovea::checkpoint
