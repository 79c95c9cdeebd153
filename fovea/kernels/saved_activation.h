// Whether what a backward pass needs of the forward one is kept as it was computed, or in bfloat16.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <string>
#include <utility>

namespace fovea::kernels {

// Note [Saved activations]
// With device.saved_activations: bfloat16, activations of float32 that Functions save on a CPU are
// saved rounded to bfloat16. The forward pass computes in float32, and so does the backward one,
// with what it saved as rounded: the same bits for any number of threads, as each value is rounded
// by itself. Kernels that go over rows make floats of them as they read (FloatRows, RowsOfHead,
// pack_strip); the others ask read_activation for a copy that lives as long as their call.
//
// What several functions save, such as the input of a norm and of the product behind it, is rounded
// once, and they share the copy.

// device.saved_activations, for this process: "full" or "bfloat16". Throws ConfigError.
void choose_saved_activations(const std::string& name);

// Of a Function's forward, for save_for_backward: x, or its copy in bfloat16. Undefined stays so.
at::Tensor save_activation(const at::Tensor& x);

// Of a Function's forward: whether a backward pass will want what it saves.
bool is_backward_recorded();

// A saved activation in the dtype that it was computed in.
at::Tensor read_activation(const at::Tensor& saved, at::ScalarType dtype);

// While alive, this thread is in the forward of a Function: is its backward recorded?
class SavingScope {
 public:
  explicit SavingScope(bool is_recorded);
  ~SavingScope();
  SavingScope(const SavingScope&) = delete;
  SavingScope& operator=(const SavingScope&) = delete;

 private:
  bool before_;
};

// A Function that saves activations: nothing is rounded where nobody will ask for a gradient.
// There T::forward is called as any other function, with a null context, and what it calls in turn
// does without autograd's bookkeeping of views, too: a node, saved variables and wrapped outputs
// that nobody looks at cost more than some of the kernels of a single image.
template <class T>
class SavingFunction : public torch::autograd::Function<T> {
 public:
  template <class... Args>
  static auto apply(Args&&... args) {
    const bool is_recorded = at::GradMode::is_enabled() && (takes_gradient(args) || ...);
    const SavingScope scope(is_recorded);
    if (is_recorded) return torch::autograd::Function<T>::apply(std::forward<Args>(args)...);
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    return T::forward(nullptr, std::forward<Args>(args)...);
  }

 private:
  static bool takes_gradient(const at::Tensor& x) { return x.requires_grad(); }
  static bool takes_gradient(const std::optional<at::Tensor>& x) { return x && x->requires_grad(); }
  template <class Other>
  static bool takes_gradient(const Other&) {
    return false;
  }
};

}  // namespace fovea::kernels
