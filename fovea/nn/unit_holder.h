// Units as members of units and models.
#pragma once

#include <torch/nn/pimpl.h>

#include <utility>

namespace fovea::nn {

// As TORCH_MODULE makes one for Impl, but a const owner may call its forward, which is const as all
// of ours are: a model that several threads use at once is not changed by any of them.
template <class Impl>
class UnitHolder : public torch::nn::ModuleHolder<Impl> {
 public:
  using torch::nn::ModuleHolder<Impl>::ModuleHolder;

  template <class... Args>
  auto operator()(Args&&... args) const {
    return std::as_const(*this->ptr()).forward(std::forward<Args>(args)...);
  }
};

}  // namespace fovea::nn
