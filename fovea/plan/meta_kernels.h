// What libtorch's meta device lacks in C++ for a step of training.
#pragma once

#include <torch/library.h>

namespace fovea::plan {

// While it lives: convolutions, batch norms, the gradient of unfolding, `where`, logical
// operations, and the least and largest element have shapes there; and a number that is asked of a
// tensor is 1: weights and norms, on which no shape depends. One at a time.
class MetaKernels {
 public:
  MetaKernels();

 private:
  torch::Library library_;
};

}  // namespace fovea::plan
