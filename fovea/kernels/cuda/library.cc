// Fovea's operators on CUDA: what the dispatcher calls, around the kernels of the .cu files. The
// contracts in ../*.h have checked what they get: tensors are contiguous, parameters float32.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "fovea/kernels/cpu/drop_words.h"
#include "fovea/kernels/cuda/adamw.h"
#include "fovea/kernels/cuda/column_sums.h"
#include "fovea/kernels/cuda/drop_mask.h"
#include "fovea/kernels/cuda/images.h"
#include "fovea/kernels/cuda/join_columns.h"
#include "fovea/kernels/cuda/layer_norm.h"
#include "fovea/kernels/cuda/operators.h"
#include "fovea/kernels/cuda/residual.h"
#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/kernels/elementwise/images.h"

namespace fovea::kernels::cuda::operators {
namespace {

using Tensors3 = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Tensors4 = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

template <class T>
const T* data_or_null(const OptionalTensor& x) {
  return x ? x->const_data_ptr<T>() : nullptr;
}

template <class T>
T* mutable_data_or_null(const OptionalTensor& x) {
  return x ? x->mutable_data_ptr<T>() : nullptr;
}

// stamp: [1 + B] int64 -> mask [B, E] float32.
at::Tensor drop_mask(const at::Tensor& stamp, int64_t packed_key, int64_t elements, double rate) {
  const Launch launch(stamp);
  const int64_t B = stamp.size(0) - 1;
  const auto mask = at::empty({B, elements}, stamp.options().dtype(at::kFloat));
  if (mask.numel() == 0) return mask;
  draw_drop_mask(stamp.const_data_ptr<int64_t>(), {.rows = B, .elements = elements},
                 {.key = {static_cast<uint32_t>(packed_key),
                          static_cast<uint32_t>(static_cast<uint64_t>(packed_key) >> 32)},
                  .threshold = cpu::drop_threshold(rate),
                  .scale = static_cast<float>(1.0 / (1.0 - rate))},
                 mask.mutable_data_ptr<float>(), launch.stream());
  launch.check();
  return mask;
}

}  // namespace

at::Tensor sum_rows(const at::Tensor& x) {
  const Launch launch(x);
  const int64_t M = x.size(0), N = x.size(1), P = parts_of_rows(M);
  const auto options = x.options().dtype(at::kFloat);
  const auto sums = at::empty({N}, options);
  const auto parts = P > 1 ? OptionalTensor(at::empty({P, N}, options)) : std::nullopt;
  sum_columns(x.const_data_ptr(), {.rows = M, .columns = N, .type = element_type(x)},
              mutable_data_or_null<float>(parts), sums.mutable_data_ptr<float>(), launch.stream());
  launch.check();
  return sums;
}

namespace {

// x: [M, D] -> y [M, D], mean [M], rstd [M].
Tensors3 layer_norm(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                    double eps) {
  const Launch launch(x);
  const auto statistics = x.options().dtype(at::kFloat);
  Tensors3 result{at::empty_like(x), at::empty({x.size(0)}, statistics),
                  at::empty({x.size(0)}, statistics)};
  const auto& [y, mean, rstd] = result;
  layer_norm_forward({.x = x.const_data_ptr(),
                      .weight = data_or_null<float>(weight),
                      .bias = data_or_null<float>(bias),
                      .eps = static_cast<float>(eps),
                      .y = y.mutable_data_ptr(),
                      .mean = mean.mutable_data_ptr<float>(),
                      .rstd = rstd.mutable_data_ptr<float>()},
                     {.rows = x.size(0), .width = x.size(1), .type = element_type(x)},
                     launch.stream());
  launch.check();
  return result;
}

// dy, x, dskip: [M, D] -> dx [M, D], and [D] each: dweight, dbias, with dskip the sums of dx. The
// parts of the sums lie side by side, so that one pass adds them all up.
Tensors4 layer_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                             const OptionalTensor& weight, const at::Tensor& mean,
                             const at::Tensor& rstd, bool has_bias, const OptionalTensor& dskip) {
  const Launch launch(x);
  const int64_t D = x.size(1);
  const NormShape shape{.rows = x.size(0), .width = D, .type = element_type(x)};
  const std::array<bool, 3> wanted = {weight.has_value(), has_bias, dskip.has_value()};
  const auto num_wanted = std::count(wanted.begin(), wanted.end(), true);
  at::Tensor parts;  // [P, num_wanted D]
  std::array<float*, 3> places{};
  if (num_wanted > 0) {
    const auto options = x.options().dtype(at::kFloat);
    parts = at::empty({layer_norm_parts(shape), num_wanted * D}, options);
    auto* place = parts.mutable_data_ptr<float>();
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) places[i] = std::exchange(place, place + D);
    }
  }
  const auto dx = at::empty_like(x);
  cuda::layer_norm_backward({.dy = dy.const_data_ptr(),
                             .x = x.const_data_ptr(),
                             .dskip = dskip ? dskip->const_data_ptr() : nullptr,
                             .weight = data_or_null<float>(weight),
                             .mean = mean.const_data_ptr<float>(),
                             .rstd = rstd.const_data_ptr<float>(),
                             .dx = dx.mutable_data_ptr(),
                             .dweight_parts = places[0],
                             .dbias_parts = places[1],
                             .dx_parts = places[2],
                             .parts_stride = num_wanted * D},
                            shape, launch.stream());
  launch.check();
  std::array<at::Tensor, 3> sums;
  const auto all = num_wanted > 0 ? sum_rows(parts) : at::Tensor();
  for (size_t i = 0, at = 0; i < wanted.size(); ++i) {
    if (wanted[i]) sums[i] = all.narrow(0, static_cast<int64_t>(at++) * D, D);
  }
  return {dx, sums[0], sums[1], sums[2]};
}

// Each [M, N] -> [M, 3 N], and its sums over rows [3 N].
std::tuple<at::Tensor, at::Tensor> join_columns(const at::Tensor& first, const at::Tensor& second,
                                                const at::Tensor& third) {
  const Launch launch(first);
  const int64_t M = first.size(0), N = first.size(1);
  const auto joined = at::empty({M, kJoined * N}, first.options());
  const auto parts = at::empty({parts_of_rows(M), kJoined * N}, first.options().dtype(at::kFloat));
  cuda::join_columns(
      {.from = {first.const_data_ptr(), second.const_data_ptr(), third.const_data_ptr()},
       .to = joined.mutable_data_ptr(),
       .sum_parts = parts.mutable_data_ptr<float>()},
      {.rows = M, .columns = N, .type = element_type(first)}, launch.stream());
  launch.check();
  return {joined, sum_rows(parts)};
}

ResidualShape residual_shape(const at::Tensor& x, const OptionalTensor& mask) {
  const int64_t M = x.size(0);
  return {.rows = M,
          .width = x.size(1),
          .rows_of_a_sample = mask ? M / mask->numel() : M,
          .type = element_type(x)};
}

// x, branch: [M, D] -> [M, D].
at::Tensor residual(const at::Tensor& x, const at::Tensor& branch, const OptionalTensor& scale,
                    const OptionalTensor& mask) {
  const Launch launch(x);
  const auto y = at::empty_like(x);
  residual_forward({.x = x.const_data_ptr(),
                    .branch = branch.const_data_ptr(),
                    .scale = data_or_null<float>(scale),
                    .mask = data_or_null<float>(mask),
                    .y = y.mutable_data_ptr()},
                   residual_shape(x, mask), launch.stream());
  launch.check();
  return y;
}

// dy, branch: [M, D] -> dbranch [M, D], dscale [D].
std::tuple<at::Tensor, at::Tensor> residual_backward(const at::Tensor& dy,
                                                     const OptionalTensor& branch,
                                                     const OptionalTensor& scale,
                                                     const OptionalTensor& mask) {
  const Launch launch(dy);
  const auto dbranch = at::empty_like(dy);
  OptionalTensor dscale;  // [P, D]
  if (scale) {
    dscale = at::empty({parts_of_rows(dy.size(0)), dy.size(1)}, dy.options().dtype(at::kFloat));
  }
  cuda::residual_backward({.dy = dy.const_data_ptr(),
                           .branch = branch ? branch->const_data_ptr() : nullptr,
                           .scale = data_or_null<float>(scale),
                           .mask = data_or_null<float>(mask),
                           .dbranch = dbranch.mutable_data_ptr(),
                           .dscale_parts = mutable_data_or_null<float>(dscale)},
                          residual_shape(dy, mask), launch.stream());
  launch.check();
  return {dbranch, dscale ? sum_rows(*dscale) : at::Tensor()};
}

void adamw_step(const at::Tensor& param, const at::Tensor& grad, const at::Tensor& exp_avg,
                const at::Tensor& exp_avg_sq, const at::Tensor& tiles,
                const at::Tensor& coefficients, const OptionalTensor& clip,
                const OptionalTensor& average, const OptionalTensor& copy) {
  static_assert(sizeof(AdamWTile) == kAdamWTileColumns * sizeof(int64_t));
  if (tiles.size(0) == 0) return;
  const Launch launch(param);
  cuda::adamw_step({.param = param.mutable_data_ptr<float>(),
                    .grad = grad.const_data_ptr<float>(),
                    .exp_avg = exp_avg.mutable_data_ptr<float>(),
                    .exp_avg_sq = exp_avg_sq.mutable_data_ptr<float>(),
                    .clip = data_or_null<double>(clip),
                    .average = mutable_data_or_null<float>(average),
                    .copy = copy ? copy->mutable_data_ptr() : nullptr},
                   static_cast<const AdamWTile*>(tiles.const_data_ptr()), tiles.size(0),
                   static_cast<const AdamWCoefficients*>(coefficients.const_data_ptr()),
                   launch.stream());
  launch.check();
}

// grad: [num_elements] -> [4] float64.
at::Tensor clip_state(const at::Tensor& grad, double max_norm, double grad_scale,
                      const OptionalTensor& loss, const OptionalTensor& before) {
  const Launch launch(grad);
  const auto options = grad.options().dtype(at::kDouble);
  const auto parts = at::empty({norm_parts(grad.numel())}, options);
  const auto state = at::empty({kClipElements}, options);
  cuda::clip_state(grad.const_data_ptr<float>(), grad.numel(),
                   {.max_norm = max_norm,
                    .grad_scale = grad_scale,
                    .loss = data_or_null<double>(loss),
                    .before = data_or_null<double>(before)},
                   parts.mutable_data_ptr<double>(), state.mutable_data_ptr<double>(),
                   launch.stream());
  launch.check();
  return state;
}

// bytes: [B, C, H, W] -> the same of the dtype. table: [B, 6], lam: [B].
at::Tensor normalize_images(const at::Tensor& bytes, const at::Tensor& mean, const at::Tensor& std,
                            const OptionalTensor& table, const OptionalTensor& lam,
                            at::ScalarType dtype) {
  static_assert(sizeof(ImageMix) == kImageMixColumns * sizeof(int64_t));
  const Launch launch(bytes);
  const auto images = at::empty(bytes.sizes(), bytes.options().dtype(dtype));
  if (images.numel() == 0) return images;
  cuda::normalize_images(
      {.bytes = bytes.const_data_ptr<uint8_t>(),
       .mean = mean.const_data_ptr<float>(),
       .std = std.const_data_ptr<float>(),
       .mixes = table ? static_cast<const ImageMix*>(table->const_data_ptr()) : nullptr,
       .lam = data_or_null<float>(lam)},
      {.batch = bytes.size(0),
       .channels = bytes.size(1),
       .height = bytes.size(2),
       .width = bytes.size(3),
       .type = element_type(dtype)},
      images.mutable_data_ptr(), launch.stream());
  launch.check();
  return images;
}

}  // namespace

TORCH_LIBRARY_IMPL(fovea, CUDA, m) {
  m.impl("drop_mask", drop_mask);
  m.impl("sum_rows", sum_rows);
  m.impl("layer_norm", layer_norm);
  m.impl("layer_norm_backward", layer_norm_backward);
  m.impl("join_columns", join_columns);
  m.impl("residual", residual);
  m.impl("residual_backward", residual_backward);
  m.impl("adamw_step", adamw_step);
  m.impl("clip_state", clip_state);
  m.impl("normalize_images", normalize_images);
}

}  // namespace fovea::kernels::cuda::operators
