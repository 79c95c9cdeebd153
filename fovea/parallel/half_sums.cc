// n elements, T tiles.
#include "fovea/parallel/half_sums.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/share_out.h"

namespace fovea::parallel {
namespace {

constexpr int64_t kLanes = 8;  // sums side by side, so that one need not wait for the last
constexpr int64_t kTilesAtOnce = 16;

// An element belongs to the lane of its place, and lanes are added in their order: what is behind a
// gradient's end, zeros or nothing, changes no bit.
template <class T>
void sum_tile(const T* a, const T* b, int64_t n, double* sums) {
  double aa[kLanes] = {}, bb[kLanes] = {}, ab[kLanes] = {};
  const auto add = [&](int64_t i, int64_t lane) {
    const double x = a[i], y = b[i];
    aa[lane] += x * x;
    bb[lane] += y * y;
    ab[lane] += x * y;
  };
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (int64_t i = whole; i < n; ++i) add(i, i - whole);
  sums[0] = sums[1] = sums[2] = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    sums[0] += aa[lane];
    sums[1] += bb[lane];
    sums[2] += ab[lane];
  }
}

template <class T>
void sum_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sums) {
  const auto* const left = a.const_data_ptr<T>();
  const auto* const right = b.const_data_ptr<T>();
  auto* const out = sums.mutable_data_ptr<double>();
  const int64_t n = a.numel();
  kernels::cpu::for_ranges(sums.size(0), 1, [&](int64_t first, int64_t last) {
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t begin = tile * kHalfTile;
      sum_tile(left + begin, right + begin, std::min(kHalfTile, n - begin), out + 3 * tile);
    }
  });
}

// By libtorch's operations, always of one shape: how they sum follows from it.
at::Tensor sum_on_device(const at::Tensor& a, const at::Tensor& b) {
  constexpr int64_t kAtOnce = kTilesAtOnce * kHalfTile;
  const auto sums = at::empty({num_half_tiles(a.numel()), 3}, a.options().dtype(at::kDouble));
  for (int64_t begin = 0; begin < a.numel(); begin += kAtOnce) {
    const int64_t n = std::min(kAtOnce, a.numel() - begin);
    const auto tiles = [&](const at::Tensor& x) {  // [tiles, elements]
      const auto wide = x.narrow(0, begin, n).to(at::kDouble);
      return at::constant_pad_nd(wide, {0, kAtOnce - n}).view({kTilesAtOnce, kHalfTile});
    };
    const auto left = tiles(a), right = tiles(b);
    const auto of_tiles = at::stack(
        {left.mul(left).sum(1), right.mul(right).sum(1), left.mul(right).sum(1)}, 1);  // [tiles, 3]
    const int64_t count = num_half_tiles(n);
    sums.narrow(0, begin / kHalfTile, count).copy_(of_tiles.narrow(0, 0, count));
  }
  return sums;
}

}  // namespace

at::Tensor half_sums(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  FOVEA_CHECK(a.numel() == b.numel() && a.scalar_type() == b.scalar_type(),
              "halves of {} and {} elements", a.numel(), b.numel());
  if (!a.is_cpu()) return sum_on_device(a, b);
  const auto left = a.contiguous(), right = b.contiguous();
  const auto sums = at::empty({num_half_tiles(a.numel()), 3}, at::kDouble);
  if (a.scalar_type() == at::kDouble) {
    sum_tiles<double>(left, right, sums);
  } else {
    sum_tiles<float>(left.to(at::kFloat), right.to(at::kFloat), sums);
  }
  return sums;
}

at::Tensor add_tiles(const at::Tensor& tiles) {
  const auto from = tiles.contiguous();
  const auto* const in = from.const_data_ptr<double>();
  const auto sum = at::zeros({3}, at::kDouble);
  auto* const out = sum.mutable_data_ptr<double>();
  for (int64_t i = 0; i < from.numel(); ++i) out[i % 3] += in[i];
  return sum;
}

}  // namespace fovea::parallel
