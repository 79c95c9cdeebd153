// A forward that is run once more, in backward and maybe in another thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fovea::nn {

// What a StepScope says.
struct StepState {
  uint64_t seed = 0;
  uint32_t step = 0;
  at::Tensor rows;               // [B] int64
  std::vector<int64_t> offsets;  // of samples that are packed into a single row
  at::Tensor stamp;              // see kernels::DropKey
  at::Tensor host_stamp;         // see kernels::DropKey
};

// Of the innermost StepScope of this thread.
std::optional<StepState> current_step();

// While alive, this thread's forwards repeat those that ran under `step`: the same drops, and no
// intermediate is recorded a second time.
class ReplayScope {
 public:
  explicit ReplayScope(const std::optional<StepState>& step);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  bool has_step_;
};

}  // namespace fovea::nn
