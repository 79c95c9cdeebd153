#include "fovea/kernels/recompute_cheap.h"

#include <atomic>

#include "fovea/core/error.h"
#include "fovea/kernels/device_memory.h"

namespace fovea::kernels {
namespace {

enum class RecomputeCheap { kAuto, kOn, kOff };

std::atomic<RecomputeCheap> choice{RecomputeCheap::kAuto};

RecomputeCheap choice_of(const std::string& name) {
  if (name == "auto") return RecomputeCheap::kAuto;
  if (name == "on") return RecomputeCheap::kOn;
  if (name == "off") return RecomputeCheap::kOff;
  fail<ConfigError>("recompute_cheap '{}' is unknown; expected auto, on or off", name);
}

}  // namespace

void choose_recompute_cheap(const std::string& name) { choice = choice_of(name); }

bool is_kept_for_backward(const at::Tensor& made) {
  switch (choice) {
    case RecomputeCheap::kOn:
      return false;
    case RecomputeCheap::kOff:
      return true;
    case RecomputeCheap::kAuto:
      break;
  }
  return made.is_cuda() && allocated_bytes(made.device()) < memory_for_us(made.device()) / 2;
}

}  // namespace fovea::kernels
