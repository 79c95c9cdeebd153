// A DeviceGraph on the CPU: every operator that reaches the back end is noted with its arguments,
// and a replay calls them all again on the same memory. What the host computed by itself, numbers
// among the arguments included, stays as it was noted, as it does in a CUDA graph. Operators run
// while they are noted; what they wrote is put back at the end.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "fovea/kernels/device_graph.h"

namespace fovea::support {

class OperatorTape final : public kernels::DeviceGraph {
 public:
  OperatorTape();

  void rehearse(const std::function<void()>& work) override { work(); }
  // Throws where an operator is called that has the host wait for the device, or whose result has a
  // shape that depends on values.
  void record(const std::function<void()>& work) override;
  void aside(const std::function<void()>& work) override;
  void apart(const std::function<void()>& work) override {
    work();
  }  // no memory is given out twice
  void replay() override;

  size_t num_calls() const { return calls_.size(); }

  // What the dispatcher calls while this is recording.
  void note(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  struct Call {
    c10::OperatorHandle op;
    torch::jit::Stack arguments, results;
  };
  void keep_before(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);
  void put_back();

  std::vector<Call> calls_;
  std::set<const c10::StorageImpl*> made_;  // while recording
  std::vector<c10::Storage> alive_;         // so that no address is given out twice
  std::map<c10::StorageImpl*, std::vector<char>> before_;
};

}  // namespace fovea::support
