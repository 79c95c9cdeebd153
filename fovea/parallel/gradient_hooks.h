// Who wants to know when a gradient is there.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace fovea::parallel {

// Callbacks on the gradients of leaves, for as long as this lives.
class GradientHooks {
 public:
  GradientHooks() = default;
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Calls `body` in backward, in whichever thread that runs, each time something was added to the
  // gradient of `param`. Throws Error where that is no leaf that gets one; `name` is what the
  // message calls it.
  void add(const at::Tensor& param, const std::string& name, std::function<void()> body);

 private:
  // Each takes one callback away, and keeps alive what that hangs on: nobody else does, and
  // versions of libtorch differ in the pointer that can.
  std::vector<std::function<void()>> removals_;
};

}  // namespace fovea::parallel
