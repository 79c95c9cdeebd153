// Which of the versions of a function that Highway has compiled an operation takes: the widest that
// the processor has and kernel_paths() allows. Included where HWY_ONCE is.
#pragma once

#include <hwy/targets.h>

#include <algorithm>
#include <cstdint>

#include "fovea/kernels/kernel_paths.h"

namespace fovea::kernels::cpu {

// Of Highway's targets, which are bits, the wider the lower, those that an operation may use.
inline int64_t allowed_targets(KernelOp op) {
  switch (kernel_paths().level(op)) {
    case KernelPath::kBaseline:
      return ~(int64_t{HWY_AVX2} * 2 - 1);
    case KernelPath::kAvx2:
      return ~(int64_t{HWY_AVX2} - 1);
    default:
      return ~int64_t{0};
  }
}

// In the tables of functions, where Highway's own choice stands, but no wider than that.
template <KernelOp kOp>
size_t target_index() {
  static const size_t widest = [] {
    hwy::ChosenTarget allowed;
    allowed.Update(allowed_targets(kOp) & HWY_TARGETS);
    return allowed.GetIndex();
  }();
  auto& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());
  return std::max(chosen.GetIndex(), widest);
}

}  // namespace fovea::kernels::cpu

#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0  // nothing to choose
#define FOVEA_DISPATCH(op, function) HWY_STATIC_DISPATCH(function)
#else
#define FOVEA_DISPATCH(op, function) (*(HWY_DISPATCH_TABLE(function)[target_index<op>()]))
#endif
