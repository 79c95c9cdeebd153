// Which operations ran, how long they took and what they cost at least.
#pragma once

#include <ATen/record_function.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fovea::train {

// Of all calls of one kind of operation.
struct OperationCost {
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  // of matrix products, 2 a multiply-add
  double bytes = 0;  // read and written once each
};

// Note [Operations]
// Listens to what its thread runs: libtorch's operations, and the work of kernels/, which has a
// kernels::WorkScope. An operation that runs within another one belongs to it: its time is that of
// the outermost, which is not counted twice, and so are the FLOPs of products inside, unless ours
// has told its own. Autograd's nodes are no operations; those that they run are. What libtorch's
// operations read and write is the size of their tensors; views and empty tensors cost nothing.
class OperationLog {
 public:
  // From now on, in this thread; one at a time. Spans go to the trace (fovea/core/trace.h) where
  // it is on.
  OperationLog();
  ~OperationLog();
  OperationLog(const OperationLog&) = delete;
  OperationLog& operator=(const OperationLog&) = delete;

  // By name ("aten::add", "fovea::linear"), since the last call or the beginning.
  std::map<std::string, OperationCost> take();

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    Clock::time_point begin;
    double flops = 0, bytes = 0;
    std::vector<const void*> storages;  // of its inputs
    bool is_ours = false;
  };

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext* context);
  void start(const at::RecordFunction& function);
  void finish(const at::RecordFunction& function);

  std::map<std::string, OperationCost> costs_;
  Running outermost_;
  int64_t depth_ = 0;  // of operations within each other
  uint64_t callback_ = 0;
};

}  // namespace fovea::train
