// machine.json: where, how and how long a run went.
#pragma once

#include <filesystem>

#include "fovea/train/machine.h"
#include "fovea/train/tensor_batch.h"

namespace fovea::train {

// machine.json while a run goes on: where and how it was started, and, from its destruction on,
// when it ended. A run that goes on keeps its first start.
class RunClock {
 public:
  RunClock(std::filesystem::path path, const ComputeOptions& compute);
  ~RunClock();
  RunClock(const RunClock&) = delete;
  RunClock& operator=(const RunClock&) = delete;

 private:
  std::filesystem::path path_;
  MachineFile file_;
};

}  // namespace fovea::train
