// Training steps one after the other: gradients, the optimizer's update and the average's. Scaling,
// clipping, the check for what is not finite and the average are part of the optimizer's pass over
// memory where it has one for them; weights come out as by compute_gradients, Optimizer::step and
// Ema::update, bit for bit.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/optim/ema.h"
#include "fovea/train/step/step_graph.h"
#include "fovea/train/step/step_parts.h"

namespace fovea::train {

// When the host learns a step's numbers.
enum class Numbers {
  kAtOnce,  // before take() returns
  // When it asks for them, so that it need not wait for a GPU in between. A step that is not finite
  // changes no weight, nor do those after it. At once nevertheless where several ranks add their
  // numbers up, a loss scale follows from them, or clipping looks at each parameter.
  kLate,
};

// Late on a GPU.
inline Numbers numbers_on(const c10::Device& device) {
  return device.is_cpu() ? Numbers::kAtOnce : Numbers::kLate;
}

class Stepper {
 public:
  // All of them outlive it. ema: null: there is none.
  Stepper(models::Model& model, const Task& task, optim::Optimizer& optimizer, optim::Ema* ema,
          const StepOptions& options, Numbers numbers);

  // From the next step on, steps are recorded and replayed where that can be (step_graph.h), with
  // what numbers come late; where not, the log says once why. is_asked_for: by name, so that it is
  // said as a warning. Changes no bit of any result.
  void use_graphs(kernels::MakeDeviceGraph make, bool is_asked_for);

  // Takes step `step` on this rank's part of a batch, with learning rate `lr`. What the scaler or
  // an exception leaves out changes no weight. Throws as compute_gradients does. Collective over
  // the ranks of the options.
  StepNotes take(data::Batch& batch, int64_t step, double lr);
  StepNotes take(const StepInput& batch, int64_t step, double lr);

  // Steps whose outcomes are there to be taken, and whether the device must be waited for.
  int64_t num_taken() const { return static_cast<int64_t>(steps_.size()); }
  bool is_late() const { return numbers_ == Numbers::kLate; }

  // Steps that were replays.
  int64_t num_replays() const { return graph_ ? graph_->num_replays() : 0; }

  // Outcomes of the steps since the last call, in their order. Throws DivergedError for the first
  // one that is not finite.
  std::vector<StepOutcome> outcomes();

 private:
  // A step whose numbers are with the device, or an outcome.
  struct Step {
    int64_t step = 0, position = 0;
    StepOutcome outcome;
    StepSums sums;
    at::Tensor clip;  // undefined: the outcome is whole
  };
  void take_at_once(const StepInput& batch, Step& taken, double lr);
  void take_late(const StepInput& batch, Step& taken, double lr);
  LateStep take_by_graph(const StepInput& batch, const LateStepOptions& how);
  LateStep take_eagerly(const StepInput& batch, const LateStepOptions& how);
  void update(int64_t step, double lr, const at::Tensor& clip);

  models::Model& model_;
  const Task& task_;
  optim::Optimizer& optimizer_;
  optim::Ema* ema_;
  const StepOptions& options_;
  bool is_one_pass_;  // clipping is left to the optimizer
  Numbers numbers_;
  std::vector<Step> steps_;
  at::Tensor last_clip_;  // of late steps: what was not finite stays so
  std::optional<StepGraph> graph_;
};

}  // namespace fovea::train
