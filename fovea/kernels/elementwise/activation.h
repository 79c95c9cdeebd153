// Pointwise activations; any shape, computed in float32 and rounded once to the dtype of x.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace fovea::kernels {

enum class Activation { kGelu, kGeluTanh, kQuickGelu, kSilu, kRelu };

// "gelu" (exact, erf), "gelu_tanh", "quick_gelu" (x sigmoid(1.702 x)), "silu", "relu". Throws
// ConfigError.
Activation activation_from_name(const std::string& name);
std::vector<std::string> activation_names();

at::Tensor activate(const at::Tensor& x, Activation kind);

// Gated units: silu(gate) * value, over halves of the last dim of packed [..., 2D] = (gate, value)
// -> [..., D].
at::Tensor gated_activate(const at::Tensor& packed, Activation kind);

// What a feed-forward layer does to its hidden features: activate, or gated_activate.
struct HiddenActivation {
  Activation kind = Activation::kGelu;
  bool is_gated = false;
};
at::Tensor activate(const at::Tensor& x, const HiddenActivation& activation);

// Whether GELU of this dtype is ours on this CPU, and not libtorch's.
bool has_own_gelu(at::ScalarType dtype);

struct ActivatedAgain {
  at::Tensor y;         // activate(x), to the bit; undefined where it is not wanted
  at::Tensor dx;        // the gradient of x
  at::Tensor row_sums;  // of dx over all dims but the last, [F] float32; undefined: nobody has them
};
// Of a backward pass that kept x, as save_activation has left it. dy: the gradient of y. GELU is
// one pass over memory on a GPU, which gives the sums as well, and on a CPU where it is ours.
ActivatedAgain activate_again(const at::Tensor& x, const at::Tensor& dy,
                              const HiddenActivation& activation, bool wants_output = true);

}  // namespace fovea::kernels
