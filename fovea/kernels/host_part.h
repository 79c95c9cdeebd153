// What the host does in a step that is recorded as a DeviceGraph.
//
// Note [Recorded steps]. A replay repeats the operations of the device with the numbers that they
// were given. So whatever the host makes anew for each step is either written into tensors that the
// step is given before it is recorded, or asked for here: host_values() for tensors and
// host_check() for checks, which are done at once in an eager step, and again before each replay of
// a recorded one. What can be neither is told by can_be_recorded(), else by refuse_recording().
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <vector>

#include "fovea/kernels/device_graph.h"

namespace fovea::kernels {

// Writes all values of a contiguous tensor in host memory.
using FillValues = std::function<void(const at::Tensor& host)>;

// The host's part of one recorded step.
class HostPart {
 public:
  // Both in the order in which they came up. What they refer to outlives this.
  void check() const;
  void fill() const;

 private:
  friend class RecordingScope;
  friend at::Tensor host_values(at::IntArrayRef, at::ScalarType, c10::Device, FillValues);
  friend void host_check(std::function<void()>);

  struct Values {
    at::Tensor there;
    FillValues fill;
    void send() const;
  };
  std::vector<std::function<void()>> checks_;
  std::vector<Values> values_;
};

// While alive, a step of this process is being recorded; its backward pass may have threads of its
// own. One at a time, within DeviceGraph::record().
class RecordingScope {
 public:
  RecordingScope(HostPart& part, DeviceGraph& graph);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

bool is_step_recorded();

// Throws Error where a step is being recorded. what: that it cannot have, for a sentence.
void refuse_recording(const char* what);

// A tensor on `device` with what `fill` writes; nobody waits for the copy.
at::Tensor host_values(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device,
                       FillValues fill);
// [values.size()] float64
at::Tensor host_values(std::vector<double> values, c10::Device device);

// Runs a check that looks at host memory alone; it throws.
void host_check(std::function<void()> check);

}  // namespace fovea::kernels
