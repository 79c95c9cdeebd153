// Gradients held against the definition of a derivative.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace fovea::support {

using TensorFunction = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Compares the whole Jacobian of f (float64 inputs, small), one output direction at a time, with
// central differences. For an op with a plain float64 path.
void expect_gradients_are_derivatives(const TensorFunction& f,
                                      const std::vector<at::Tensor>& inputs);

struct Gradients {
  at::Tensor output;
  std::vector<at::Tensor> inputs;  // undefined where f does not depend on an input
};

// Output and gradients of sum(f(inputs) * direction), direction being a fixed random tensor.
// Gradients are taken with respect to copies, so that `inputs` are left alone. Integer and
// undefined inputs pass through.
Gradients gradients(const TensorFunction& f, const std::vector<at::Tensor>& inputs);

// Runs `op` on `inputs` and `reference` on the same values in float64, and compares outputs and
// gradients with the tolerance of `dtype`.
void expect_matches_reference(const TensorFunction& op, const TensorFunction& reference,
                              const std::vector<at::Tensor>& inputs, at::ScalarType dtype);

}  // namespace fovea::support
