// Optimizers over flat float32 buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/kernels/flat_buffers.h"
#include "fovea/kernels/recordable.h"
#include "fovea/kernels/tensor_part.h"

namespace fovea::optim {

// x becomes its sum over the processes that have the other parts, in place; one of them counts what
// several have alike (ParamSpec::is_counted). Collective.
using SumOverParts = std::function<void(const at::Tensor& x)>;

// Where a parameter lies already, in flat buffers of whoever shares parameters out.
struct FlatPlace {
  kernels::FlatBuffers buffers;  // the same of all parameters
  int64_t begin = 0;             // in elements; aligned
};

// One parameter with what the groups say of it; plain data, made by `param_groups.h`.
struct ParamSpec {
  std::string name;
  at::Tensor param;  // float32 leaf; its storage and its .grad() become views of the flat buffers
  double lr_scale = 1.0;      // layer decay
  double weight_decay = 0.0;  // 0 for biases, norms and the model's no_weight_decay()
  // Where several processes share the parameter out: which part of it `param`, of one dim or of the
  // cut's shape, is. That may be empty. None: it is the whole.
  std::optional<kernels::TensorPart> part = {};
  // False where another process has the same values and adds them to sums over parts.
  bool is_counted = true;
  // An optimizer works in these buffers then, and has none of its own. Of all parameters or of
  // none.
  std::optional<FlatPlace> place = {};

  // Of the whole parameter.
  at::IntArrayRef shape() const { return part ? at::IntArrayRef(part->shape) : param.sizes(); }
  int64_t first() const { return part ? part->first : 0; }
  // The part, all of it where there is none.
  kernels::TensorPart whole_part() const {
    return part ? *part : kernels::TensorPart{.shape = param.sizes().vec()};
  }
};

// What an optimizer of parts is given by who shares them out. All processes have the same specs in
// the same order, so that they call `sum` alike.
struct PartLinks {
  SumOverParts sum;  // norms and averages are of whole parameters
  // Called after the values changed; may be collective. has_copy: FlatBuffers::copy did alike.
  std::function<void(bool has_copy)> changed;
};

// What a step does besides its update, in the same pass over memory where the optimizer has one for
// that; else before and after it.
struct StepExtras {
  // Of kernels::clip_state, of the gradients as they stand: they count times its scale and factor,
  // and where it says that something is not finite, no value changes. Undefined: they count as they
  // are. They may be left as they were, or scaled.
  at::Tensor clip = {};
  // Laid out like flat_param(): becomes lerp(average, new parameters, average_weight). Undefined:
  // there is none.
  at::Tensor average = {};
  double average_weight = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update with learning rate `lr` from the accumulated gradients.
  virtual void step(double lr, const StepExtras& extras = {}) = 0;
  // Whether step() may be part of a recorded step (kernels/host_part.h). While it is recorded it
  // counts nothing.
  virtual kernels::Recordable can_be_recorded() const {
    return {"the optimizer has no update in one pass"};
  }
  // Whether step() of parameters that are parts needs nothing of the other processes' parts.
  virtual bool updates_elements_alone() const { return false; }
  // step() of a recorded step: `replay` does its work on the device and all that the step has
  // besides. extras: of the tensors that were recorded.
  virtual void step_by_replay(double lr, const StepExtras& extras,
                              const std::function<void()>& replay);
  // Gradients to zero (kept allocated). Those in buffers of others (FlatPlace) are dropped instead:
  // zeros for whoever reads them, and to be written, not added to, by whoever has new ones.
  virtual void zero_grad() = 0;
  // All gradients as one flat float32 tensor, in parameter order, each parameter padded with zeros
  // to 64 bytes: for scaling and clipping.
  virtual at::Tensor flat_grad() = 0;
  virtual at::Tensor flat_param() = 0;
  virtual const std::vector<ParamSpec>& params() const = 0;
  // To be called after the values changed by other means than step(): a graph that still holds an
  // old value then throws instead of using the new one.
  virtual void mark_changed() = 0;

  // Before the first step, where the parameters are parts.
  void connect(PartLinks links) { links_ = std::move(links); }
  // Empty where the parameters are whole.
  const SumOverParts& sum_over_parts() const { return links_.sum; }

  // Moments by name ("exp_avg/blocks.0.attn.qkv.weight" ...), to save; views, not copies.
  virtual std::map<std::string, at::Tensor> state() = 0;
  virtual int64_t steps_taken() const = 0;
  // Copies saved moments in. Throws CheckpointError unless names and shapes are the same set.
  virtual void load_state(const std::map<std::string, at::Tensor>& state, int64_t steps_taken) = 0;

 protected:
  void tell_changed(bool has_copy) const {
    if (links_.changed) links_.changed(has_copy);
  }

 private:
  PartLinks links_;
};

}  // namespace fovea::optim
