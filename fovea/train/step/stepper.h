// Training steps one after the other, whose numbers may come late and whose operations may be
// recorded.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/train/step/step.h"
#include "fovea/train/step/step_graph.h"

namespace fovea::train {

// Late on a GPU.
inline Numbers numbers_on(const c10::Device& device) {
  return device.is_cpu() ? Numbers::kAtOnce : Numbers::kLate;
}

class Stepper {
 public:
  // All of the parts outlive it. numbers: late where they can be (can_be_late). A late step that is
  // not finite changes no weight, nor do those after it.
  Stepper(const StepParts& parts, Numbers numbers);

  // From the next step on, steps are recorded and replayed where that can be (step_graph.h), with
  // what numbers come late; where not, the log says once why. is_asked_for: by name, so that it is
  // said as a warning. Changes no bit of any result.
  void use_graphs(kernels::MakeDeviceGraph make, bool is_asked_for);

  // Takes step `step` on this rank's part of a batch, with learning rate `lr`: prepare_step, then
  // apply_step, unless the scaler or an exception leaves it out. Collective over the ranks of the
  // options.
  StepNotes take(data::Batch& batch, int64_t step, double lr);
  StepNotes take(const StepInput& batch, int64_t step, double lr);

  // Steps whose outcomes are there to be taken, and whether the device must be waited for.
  int64_t num_taken() const { return static_cast<int64_t>(late_.size() + outcomes_.size()); }
  bool is_late() const { return numbers_ == Numbers::kLate; }

  // Steps that were replays.
  int64_t num_replays() const { return graph_ ? graph_->num_replays() : 0; }

  // Outcomes of the steps since the last call, in their order. Throws DivergedError for the first
  // one that is not finite.
  std::vector<StepOutcome> outcomes();

 private:
  PreparedStep take_by_graph(const StepInput& batch, int64_t step, double lr);
  PreparedStep take_late(const StepInput& batch, int64_t step, double lr,
                         const at::Tensor& clip_before);

  StepParts parts_;
  Numbers numbers_;
  std::vector<StepOutcome> outcomes_;  // at once
  std::vector<PreparedStep> late_;
  at::Tensor last_clip_;  // of late steps: what was not finite stays so
  std::optional<StepGraph> graph_;
};

}  // namespace fovea::train
