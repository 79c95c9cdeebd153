#include <algorithm>

#include "fovea/kernels/cpu/gelu.h"

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/kernels/cpu/float_gelu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "fovea/kernels/cpu/gelu.inc"
#include "fovea/kernels/cpu/highway_targets.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct GeluValues {
  const float *dy, *x;  // dy: null where there is no gradient
  float *dx, *y;        // null where it is not wanted
};

HWY_INLINE void gelu_of_vector(const GeluValues& values, int64_t i) {
  const Tag d;
  const auto x = hn::LoadU(d, values.x + i);
  const auto tail = gelu_tail(x);
  if (values.dx) {
    const auto dy = hn::LoadU(d, values.dy + i);
    hn::StoreU(hn::Mul(dy, gelu_derivative_of(x, tail)), d, values.dx + i);
  }
  if (values.y) hn::StoreU(gelu_of(x, tail), d, values.y + i);
}

// The last ones, fewer than a vector, with zeros behind them.
void gelu_of_rest(const GeluValues& values, int64_t begin, int64_t count) {
  float staged[4][16] = {};
  std::copy_n(values.x + begin, count, staged[0]);
  if (values.dy) std::copy_n(values.dy + begin, count, staged[1]);
  gelu_of_vector(
      {staged[1], staged[0], values.dx ? staged[2] : nullptr, values.y ? staged[3] : nullptr}, 0);
  if (values.dx) std::copy_n(staged[2], count, values.dx + begin);
  if (values.y) std::copy_n(staged[3], count, values.y + begin);
}

void gelu_values(const GeluValues& values, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) gelu_of_vector(values, i);
  if (i < count) gelu_of_rest(values, i, count - i);
}

void gelu(const float* x, int64_t count, float* y) { gelu_values({nullptr, x, nullptr, y}, count); }
void gelu_backward(const float* dy, const float* x, int64_t count, float* dx) {
  gelu_values({dy, x, dx, nullptr}, count);
}
void gelu_again(const float* dy, const float* x, int64_t count, float* dx, float* y) {
  gelu_values({dy, x, dx, y}, count);
}

}  // namespace
}  // namespace fovea::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels::cpu {

HWY_EXPORT(gelu);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(gelu_again);

void gelu(const float* x, int64_t count, float* y) {
  FOVEA_DISPATCH(KernelOp::kGelu, gelu)(x, count, y);
}

void gelu_backward(const float* dy, const float* x, int64_t count, float* dx) {
  FOVEA_DISPATCH(KernelOp::kGelu, gelu_backward)(dy, x, count, dx);
}

void gelu_again(const float* dy, const float* x, int64_t count, float* dx, float* y) {
  FOVEA_DISPATCH(KernelOp::kGelu, gelu_again)(dy, x, count, dx, y);
}

}  // namespace fovea::kernels::cpu
#endif
