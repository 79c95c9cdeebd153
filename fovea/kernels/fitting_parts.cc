#include "fovea/kernels/fitting_parts.h"

#include <fmt/format.h>

#include "fovea/core/log.h"
#include "fovea/kernels/device_memory.h"

namespace fovea::kernels {

int64_t FittingParts::most() const {
  const std::lock_guard lock(mutex_);
  return most_;
}

void FittingParts::lower_from(int64_t count) {
  release_kept_memory(device_);
  {
    const std::lock_guard lock(mutex_);
    if (most_ <= count / 2) return;  // another thread has been here
    most_ = count / 2;
  }
  log_warning(fmt::format("memory ran out in a pass over {} inputs: from now on {} at a time",
                          count, count / 2));
}

}  // namespace fovea::kernels
