// Optimizers that treat each element of a parameter by itself: everything but the formula.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fovea/optim/adamw.h"
#include "fovea/optim/flat_optimizer.h"

namespace fovea::optim {

// Parameters with equal settings, as views of the flat buffers: the lists that ATen's multi-tensor
// operators take.
struct PlainGroup {
  double lr_scale = 1;
  double weight_decay = 0;
  std::vector<at::Tensor> params, grads;
  std::vector<std::vector<at::Tensor>> moments;  // by moment, then by parameter
};

// A group for each pair of settings that occurs among parameters `which` of `flat`. moments: by
// moment, then as in `which`.
std::vector<PlainGroup> plain_groups(FlatParams& flat, const std::vector<size_t>& which,
                                     const std::vector<std::vector<at::Tensor>>& moments);

// Whether the fused update is to be used: for float32 on the CPU, and on another device if the
// optimizer has a kernel there. Throws Error where it is asked for and cannot be.
bool use_fused(Implementation implementation, const FlatParams& flat, const std::string& optimizer,
               bool has_kernel = false);

// Whether an optimizer's fused update has a kernel for a device other than the CPU.
using HasKernel = std::function<bool(c10::Device)>;

class ElementwiseOptimizer : public FlatOptimizer {
 public:
  bool updates_elements_alone() const final { return true; }

 protected:
  // moment_names: one buffer each, zeros at first. `name` is the optimizer's, for messages.
  ElementwiseOptimizer(std::string name, std::vector<ParamSpec> params,
                       const std::vector<std::string>& moment_names, Implementation implementation,
                       const HasKernel& has_kernel = {});

  // Both update the flat buffers with the gradients as they stand; `lr` is before lr_scale, and
  // steps_taken() counts this step already.
  virtual void update_fused(const at::Tensor& grad, double lr) = 0;
  virtual void update_group(PlainGroup& group, double lr) = 0;

  const at::Tensor& moment(size_t i) const { return moments_[i]; }
  // Whether update_fused is what updates.
  bool is_fused() const { return groups_.empty(); }

 private:
  void update(double lr) final;

  std::vector<at::Tensor> moments_;  // laid out like the parameters
  std::vector<PlainGroup> groups_;   // empty where the fused update is used
};

}  // namespace fovea::optim
