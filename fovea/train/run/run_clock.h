// machine.json: where, how and how long a run went.
#pragma once

#include <filesystem>

#include "fovea/train/bench/machine.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

// machine.json while a run goes on: where and how it was started, and, from its destruction on,
// when it ended. A run that goes on keeps its first start. Nothing of the run hangs on the file:
// where it is damaged or cannot be written, a warning says so.
class RunClock {
 public:
  RunClock(std::filesystem::path path, const ComputeOptions& compute);
  ~RunClock();
  RunClock(const RunClock&) = delete;
  RunClock& operator=(const RunClock&) = delete;

 private:
  void write() const;

  std::filesystem::path path_;
  MachineFile file_;
};

}  // namespace fovea::train
