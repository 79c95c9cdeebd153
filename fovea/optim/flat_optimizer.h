// What optimizers over flat buffers share: everything but the formula.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/optim/adamw.h"
#include "fovea/optim/flat_params.h"
#include "fovea/optim/optimizer.h"

namespace fovea::optim {

// Parameters with equal settings, as views of the flat buffers: the lists that ATen's multi-tensor
// operators take.
struct PlainGroup {
  double lr_scale = 1;
  double weight_decay = 0;
  std::vector<at::Tensor> params, grads;
  std::vector<std::vector<at::Tensor>> moments;  // by moment, then by parameter
};

class FlatOptimizer : public Optimizer {
 public:
  void step(double lr) final;
  void zero_grad() final { flat_.zero_grad(); }
  at::Tensor flat_grad() final { return flat_.grad(); }
  at::Tensor flat_param() final { return flat_.param(); }
  const std::vector<ParamSpec>& params() const final { return flat_.params(); }
  std::map<std::string, at::Tensor> state() final;
  int64_t steps_taken() const final { return steps_taken_; }
  void load_state(const std::map<std::string, at::Tensor>& state, int64_t steps_taken) final;

 protected:
  // moment_names: one buffer each, zeros at first. `name` is the optimizer's, for messages.
  FlatOptimizer(std::string name, std::vector<ParamSpec> params,
                std::vector<std::string> moment_names, Implementation implementation);

  // Both update the flat buffers with the gradients as they stand; `lr` is before lr_scale, and
  // steps_taken() counts this step already. update_segment: positions [begin, end) of one
  // parameter.
  virtual void update_segment(const ParamSpec& spec, int64_t begin, int64_t end, double lr) = 0;
  virtual void update_group(PlainGroup& group, double lr) = 0;

  float* param_data() const { return flat_.param().data_ptr<float>(); }
  const float* grad_data() { return grad_->data_ptr<float>(); }
  float* moment_data(size_t i) const { return moments_[i].data_ptr<float>(); }

 private:
  std::vector<PlainGroup> plain_groups();

  std::string name_;
  FlatParams flat_;
  std::vector<std::string> moment_names_;
  std::vector<at::Tensor> moments_;   // laid out like the parameters
  std::vector<PlainGroup> groups_;    // empty where the fused update is used
  const at::Tensor* grad_ = nullptr;  // valid during step()
  int64_t steps_taken_ = 0;
};

}  // namespace fovea::optim
