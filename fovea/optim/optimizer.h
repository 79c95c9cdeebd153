// Optimizers over flat float32 buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fovea::optim {

// One parameter with what the groups say of it; plain data, made by `param_groups.h`.
struct ParamSpec {
  std::string name;
  at::Tensor param;  // float32 leaf; its storage and its .grad() become views of the flat buffers
  double lr_scale = 1.0;      // layer decay
  double weight_decay = 0.0;  // 0 for biases, norms and the model's no_weight_decay()
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update with learning rate `lr` from the accumulated gradients.
  virtual void step(double lr) = 0;
  // Gradients to zero (kept allocated).
  virtual void zero_grad() = 0;
  // All gradients as one flat float32 tensor, in parameter order, each parameter padded with zeros
  // to 64 bytes: for scaling and clipping.
  virtual at::Tensor flat_grad() = 0;
  virtual at::Tensor flat_param() = 0;
  virtual const std::vector<ParamSpec>& params() const = 0;

  // Moments by name ("exp_avg/blocks.0.attn.qkv.weight" ...), to save; views, not copies.
  virtual std::map<std::string, at::Tensor> state() = 0;
  virtual int64_t steps_taken() const = 0;
  // Copies saved moments in. Throws CheckpointError unless names and shapes are the same set.
  virtual void load_state(const std::map<std::string, at::Tensor>& state, int64_t steps_taken) = 0;
};

}  // namespace fovea::optim
