#include "fovea/kernels/cpu/rounded_rows.h"

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/kernels/cpu/rounded_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "fovea/kernels/cpu/gelu.inc"
#include "fovea/kernels/cpu/highway_targets.h"
#include "fovea/kernels/cpu/vector_memory.inc"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The value of bfloat16 that is nearest.
HWY_INLINE Floats nearest(Floats x) { return widened(rounded(x)); }

template <class Memory>
HWY_INLINE void round_values(const Memory& memory, const float* sums, int64_t place,
                             const uint16_t* residual, const Bfloat16Result& result) {
  auto x = memory.load(sums);
  if (residual) x = hn::Add(nearest(x), memory.load(residual));
  if (result.data != result.gelu) memory.store(x, result.data + place);
  if (!result.gelu) return;
  x = nearest(x);
  memory.store(gelu_of(x, gelu_tail(x)), result.gelu + place);
}

void round_all(const float* sums, int64_t rows, int64_t columns, const Bfloat16Result& result) {
  for (int64_t r = 0; r < rows; ++r, sums += columns) {
    const auto* residual = result.residual ? result.residual + r * result.residual_stride : nullptr;
    const int64_t place = r * result.stride;
    int64_t i = 0;
    for (; i + lanes() <= columns; i += lanes()) {
      round_values(WholeVector(), sums + i, place + i, residual ? residual + i : nullptr, result);
    }
    if (i == columns) continue;
    round_values(FewValues{columns - i}, sums + i, place + i, residual ? residual + i : nullptr,
                 result);
  }
}

}  // namespace
}  // namespace fovea::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels::cpu {

HWY_EXPORT(round_all);

void round_rows(const float* sums, int64_t rows, int64_t columns, const Bfloat16Result& result) {
  FOVEA_DISPATCH(KernelOp::kLinear, round_all)(sums, rows, columns, result);
}

}  // namespace fovea::kernels::cpu
#endif
