// What libtorch's meta device lacks in C++ for a model's forward pass and a step of training.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace fovea::kernels {

// While it lives: convolutions, batch norms, the gradients of layer norm and of unfolding,
// variances, the logarithm of the sigmoid, products of FP8, rows chosen and summed by an index,
// `where`, logical operations, and the least and largest element have shapes there. A number that
// is asked of a tensor, or copied out of it, is one on which no shape depends: 1 of weights and
// norms, 0 of labels. One at a time.
class MetaKernels {
 public:
  MetaKernels();
  MetaKernels(const MetaKernels&) = delete;
  MetaKernels& operator=(const MetaKernels&) = delete;

  // What is asked of a tensor of conditions, or copied out of it; at first true. Models ask whether
  // every patch of a batch is there.
  void set_conditions(bool hold) { conditions_hold_ = hold; }

 private:
  at::Scalar number_of(const at::Tensor& x) const;

  bool conditions_hold_ = true;
  torch::Library library_;
};

}  // namespace fovea::kernels
