#include "fovea/data/adaptive/gaussian_rows.h"

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/data/adaptive/gaussian_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::data::patching::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::ScalableTag<double>;
using Floats = hn::Rebind<float, Doubles>;

// Two vectors at a time: two chains of sums, both in registers.
void filter_line_loop(const double* middle, const double* const* before, const double* const* after,
                      const double* weights, int64_t radius, int64_t count, float* out) {
  const Doubles d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t x = 0;
  for (; x + 2 * lanes <= count; x += 2 * lanes) {
    auto weight = hn::Set(d, weights[0]);
    auto first = hn::Mul(hn::LoadU(d, middle + x), weight);
    auto second = hn::Mul(hn::LoadU(d, middle + x + lanes), weight);
    for (int64_t k = radius; k >= 1; --k) {
      weight = hn::Set(d, weights[k]);
      const double* a = before[k] + x;
      const double* b = after[k] + x;
      first = hn::MulAdd(hn::Add(hn::LoadU(d, a), hn::LoadU(d, b)), weight, first);
      second =
          hn::MulAdd(hn::Add(hn::LoadU(d, a + lanes), hn::LoadU(d, b + lanes)), weight, second);
    }
    hn::StoreU(hn::DemoteTo(Floats(), first), Floats(), out + x);
    hn::StoreU(hn::DemoteTo(Floats(), second), Floats(), out + x + lanes);
  }
  for (; x < count; ++x) {
    double sum = middle[x] * weights[0];
    for (int64_t k = radius; k >= 1; --k) sum += (before[k][x] + after[k][x]) * weights[k];
    out[x] = static_cast<float>(sum);
  }
}

void widen_line_loop(const float* in, int64_t count, double* out) {
  const Doubles d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t x = 0;
  for (; x + lanes <= count; x += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(Floats(), in + x)), d, out + x);
  }
  for (; x < count; ++x) out[x] = in[x];
}

}  // namespace
}  // namespace fovea::data::patching::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::data::patching {

HWY_EXPORT(filter_line_loop);
HWY_EXPORT(widen_line_loop);

void filter_line(const double* middle, const double* const* before, const double* const* after,
                 const double* weights, int64_t radius, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(filter_line_loop)(middle, before, after, weights, radius, count, out);
}

void widen_line(const float* in, int64_t count, double* out) {
  HWY_DYNAMIC_DISPATCH(widen_line_loop)(in, count, out);
}

}  // namespace fovea::data::patching
#endif
