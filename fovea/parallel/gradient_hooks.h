// Who wants to know when a gradient is there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace torch::autograd {
struct Node;
}

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
  struct Hook {
    std::shared_ptr<torch::autograd::Node> accumulator;  // nobody else keeps it alive
    uintptr_t key = 0;
  };
  std::vector<Hook> hooks_;
};

}  // namespace fovea::parallel
