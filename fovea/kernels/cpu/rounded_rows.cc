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

// A row of a Bfloat16Result. Null: not wanted.
struct RoundedRow {
  uint16_t* data;
  const uint16_t* residual;
  uint16_t* gelu;
};

RoundedRow row_of(const Bfloat16Result& result, int64_t row) {
  const auto at = [row](auto* first, int64_t stride) {
    return first ? first + row * stride : nullptr;
  };
  return {.data = result.data == result.gelu ? nullptr : at(result.data, result.stride),
          .residual = at(result.residual, result.residual_stride),
          .gelu = at(result.gelu, result.stride)};
}

// What data becomes from column i on, and GELU of it.
template <class Memory>
HWY_INLINE Floats values_at(const Memory& memory, const float* sums, const RoundedRow& to,
                            int64_t i) {
  const auto x = nearest(memory.load(sums + i));
  return to.residual ? nearest(hn::Add(x, memory.load(to.residual + i))) : x;
}
HWY_INLINE Floats nearest_gelu(Floats x) { return nearest(gelu_of(x, gelu_tail(x))); }

// A vector, or fewer values.
template <class Memory>
HWY_INLINE void round_values(const Memory& memory, const float* sums, const RoundedRow& to,
                             int64_t i) {
  const auto x = values_at(memory, sums, to, i);
  if (to.data) memory.store(x, to.data + i);
  if (to.gelu) memory.store(nearest_gelu(x), to.gelu + i);
}

// Two vectors, which are written together.
HWY_INLINE void round_two(const float* sums, const RoundedRow& to, int64_t i) {
  const auto x = values_at(WholeVector(), sums, to, i);
  const auto y = values_at(WholeVector(), sums, to, i + lanes());
  if (to.data) store_upper_halves(x, y, to.data + i);
  if (to.gelu) store_upper_halves(nearest_gelu(x), nearest_gelu(y), to.gelu + i);
}

void round_all(const float* sums, int64_t rows, int64_t columns, const Bfloat16Result& result) {
  const int64_t one = lanes(), two = 2 * one;
  for (int64_t r = 0; r < rows; ++r, sums += columns) {
    const auto to = row_of(result, r);
    int64_t i = 0;
    for (; i + two <= columns; i += two) round_two(sums, to, i);
    for (; i + one <= columns; i += one) round_values(WholeVector(), sums, to, i);
    if (i < columns) round_values(FewValues{columns - i}, sums, to, i);
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
