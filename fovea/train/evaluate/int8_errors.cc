#include "fovea/train/evaluate/int8_errors.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "fovea/train/evaluate/eval_mode.h"
#include "fovea/train/recipe/int8_layers.h"

namespace fovea::train {

Int8Errors measure_int8_errors(models::Model& model, kernels::WeightCopies& copies,
                               const std::vector<std::string>& skip, const TensorBatch& batch) {
  const at::NoGradGuard no_grad;
  const EvalModeScope eval_mode(model);
  const auto layers = int8_layers(model, /*skip=*/{});
  const auto use = [&](const nn::NamedLinears& some, bool uses) {
    for (const auto& [name, layer] : some) copies.use_int8(layer->weight, uses);
  };
  use(layers, false);
  const auto exact = forward(model, batch).to(at::kDouble);
  const double size = exact.norm().item<double>();
  const auto error = [&] {
    const double change = (forward(model, batch).to(at::kDouble) - exact).norm().item<double>();
    return change > 0 ? change / size : 0;
  };
  Int8Errors errors;
  for (const auto& one : layers) {
    use({one}, true);
    errors.layers.push_back({one.first, error()});
    use({one}, false);
  }
  std::stable_sort(
      errors.layers.begin(), errors.layers.end(),
      [](const Int8LayerError& a, const Int8LayerError& b) { return a.error > b.error; });
  use(int8_layers(model, skip), true);
  errors.all = error();
  return errors;
}

}  // namespace fovea::train
