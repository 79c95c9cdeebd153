// What optimizers over flat buffers share: parameters, gradients, saved state and the count of
// steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/optim/flat_params.h"
#include "fovea/optim/optimizer.h"

namespace fovea::optim {

// The update to those who listen to work (kernels/work_scope.h).
inline constexpr const char* kUpdateWork = "fovea::optimizer_update";

class FlatOptimizer : public Optimizer {
 public:
  void step(double lr, const StepExtras& extras) final;
  void step_by_replay(double lr, const StepExtras& extras,
                      const std::function<void()>& replay) final;
  void zero_grad() final { flat_.zero_grad(); }
  at::Tensor flat_grad() final { return flat_.grad(); }
  at::Tensor flat_param() final { return flat_.param(); }
  const std::vector<ParamSpec>& params() const final { return flat_.params(); }
  void mark_changed() final { mark_changed(/*has_copy=*/false); }
  std::map<std::string, at::Tensor> state() final { return state_; }
  int64_t steps_taken() const final { return steps_taken_; }
  void load_state(const std::map<std::string, at::Tensor>& state, int64_t steps_taken) final;

 protected:
  // `name` is the optimizer's, for messages.
  FlatOptimizer(std::string name, std::vector<ParamSpec> params);

  // Updates the flat parameters with the gradients as they stand. `lr` is before lr_scale, and
  // steps_taken() counts this step already.
  virtual void update(double lr) = 0;

  // What the host works out for the pass below, after steps_taken() has counted it.
  virtual void prepare(double /*lr*/, const StepExtras& /*extras*/) {}

  // The same with what `extras` has, in one pass; weight_copies, unless undefined, become the new
  // parameters in bfloat16. False, and nothing done, where there is no such pass.
  virtual bool update_in_one_pass(double /*lr*/, const StepExtras& /*extras*/,
                                  const at::Tensor& /*weight_copies*/) {
    return false;
  }

  // From now on `tensor` is saved and loaded as "moment/<name of parameter i>".
  void add_state(const std::string& moment, size_t i, const at::Tensor& tensor);

  const std::string& name() const { return name_; }
  FlatParams& flat() { return flat_; }
  const FlatParams& flat() const { return flat_; }

 private:
  void update_around(double lr, const StepExtras& extras);
  void mark_changed(bool has_copy);

  std::string name_;
  FlatParams flat_;
  kernels::WeightCopies copies_;
  std::map<std::string, at::Tensor> state_;
  int64_t steps_taken_ = 0;
};

}  // namespace fovea::optim
