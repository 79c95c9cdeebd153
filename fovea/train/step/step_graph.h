// Whole training steps - micro-batches, clipping, the optimizer's update, the average - recorded as
// one graph of the device's operations and replayed, so that the host need not launch them one by
// one. Free of CUDA: see kernels/device_graph.h. What a replay takes from the host is that of
// Note [Recorded steps] and what is written here: the batch, the rows and step of what is drawn,
// the state of clipping.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/kernels/device_graph.h"
#include "fovea/kernels/host_part.h"
#include "fovea/train/step/step.h"

namespace fovea::train {

struct RecordedStepOptions {
  int64_t step = 0;
  double lr = 0;
  at::Tensor clip_before = {};  // of the step before; undefined: there was none
};

// A whole eager step with late numbers, which is what is recorded.
using TakeStep = std::function<PreparedStep(const StepInput&, const RecordedStepOptions&)>;

// Why no step of these can be recorded; empty: it may be tried.
std::string why_not_recorded(const StepParts& parts);

// One line in the log; a warning where graphs were asked for by name.
void say_not_recorded(const std::string& reason, bool is_asked_for);

class StepGraph {
 public:
  // Eager steps of one layout before it is recorded: what is chosen, measured or allocated on first
  // use is there then.
  static constexpr int kWarmUps = 3;

  // The parts outlive it. is_asked_for: see Stepper::use_graphs.
  StepGraph(const StepParts& parts, TakeStep take, bool is_asked_for,
            kernels::MakeDeviceGraph make);

  // As the eager `take`, to the bit. After kWarmUps steps whose batches are laid out alike such a
  // step is recorded, and those that follow are replays of it; others are taken eagerly, as all are
  // once recording has failed, and the log says why.
  PreparedStep take(const StepInput& batch, const RecordedStepOptions& how);

  int64_t num_replays() const { return num_replays_; }

  // No more steps are recorded or replayed; the log says why.
  void give_up(const std::string& reason);

 private:
  std::vector<TensorBatch> passes_of(const StepInput& batch, int64_t step) const;
  StepInput input_of_passes(const StepInput& batch, const std::vector<TensorBatch>& passes) const;
  PreparedStep warm_up(const StepInput& batch, const RecordedStepOptions& how);
  std::string layout_of(const std::vector<TensorBatch>& passes) const;
  void say_other_layout(const std::string& layout, int64_t step);
  bool record(const StepInput& batch, const std::vector<TensorBatch>& passes,
              const RecordedStepOptions& how);
  PreparedStep replay(const std::vector<TensorBatch>& passes, const RecordedStepOptions& how,
                      int64_t position);

  StepParts parts_;
  TakeStep take_;
  bool is_asked_for_;
  kernels::MakeDeviceGraph make_;
  bool is_off_ = false;
  bool is_recorded_ = false;
  std::string layout_;  // of the batches that are recorded, or will be
  int num_warm_ups_ = 0;
  bool has_said_layout_ = false;
  int64_t num_replays_ = 0;

  // Of the recorded step. The tensors lie where it reads and writes them.
  kernels::HostPart host_;
  std::vector<TensorBatch> passes_;
  at::Tensor clip_before_;
  PreparedStep result_;
  std::unique_ptr<kernels::DeviceGraph> graph_;  // goes before its tensors
};

}  // namespace fovea::train
