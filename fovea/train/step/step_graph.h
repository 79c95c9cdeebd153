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
#include "fovea/optim/ema.h"
#include "fovea/train/step/step_parts.h"

namespace fovea::train {

struct LateStepOptions {
  int64_t step = 0;
  double lr = 0;
  at::Tensor clip_before = {};  // of the step before; undefined: there was none
};

// A step whose numbers the device may not have yet.
struct LateStep {
  StepSums sums;
  at::Tensor clip;  // of kernels::clip_state
};

using TakeLateStep = std::function<LateStep(const StepInput&, const LateStepOptions&)>;

// Why no step of these can be recorded; empty: it may be tried.
std::string why_not_recorded(const models::Model& model, const Task& task,
                             const optim::Optimizer& optimizer, const StepOptions& options);

// One line in the log; a warning where graphs were asked for by name.
void say_not_recorded(const std::string& reason, bool is_asked_for);

// All of it outlives the graph.
struct StepGraphParts {
  const Task& task;
  optim::Optimizer& optimizer;
  optim::Ema* ema = nullptr;  // null: there is none
  const StepOptions& options;
  TakeLateStep take;  // a whole eager step, which is what is recorded
  bool is_asked_for = false;
};

class StepGraph {
 public:
  // Eager steps of one layout before it is recorded: what is chosen, measured or allocated on first
  // use is there then.
  static constexpr int kWarmUps = 3;

  StepGraph(StepGraphParts parts, kernels::MakeDeviceGraph make);

  // As parts.take, to the bit. After kWarmUps steps whose batches are laid out alike such a step is
  // recorded, and those that follow are replays of it; others are taken eagerly, as all are once
  // recording has failed, and the log says why.
  LateStep take(const StepInput& batch, const LateStepOptions& how);

  int64_t num_replays() const { return num_replays_; }

  // No more steps are recorded or replayed; the log says why.
  void give_up(const std::string& reason);

 private:
  std::vector<TensorBatch> passes_of(const StepInput& batch, int64_t step) const;
  StepInput input_of_passes(const StepInput& batch, const std::vector<TensorBatch>& passes) const;
  LateStep warm_up(const StepInput& batch, const LateStepOptions& how);
  std::string layout_of(const std::vector<TensorBatch>& passes) const;
  void say_other_layout(const std::string& layout, int64_t step);
  bool record(const StepInput& batch, const std::vector<TensorBatch>& passes,
              const LateStepOptions& how);
  LateStep replay(const std::vector<TensorBatch>& passes, const LateStepOptions& how);

  StepGraphParts parts_;
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
  LateStep result_;
  std::unique_ptr<kernels::DeviceGraph> graph_;  // goes before its tensors
};

}  // namespace fovea::train
