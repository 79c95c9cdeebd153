#include "fovea/optim/clip.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/flat_loops.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/optim/flat_params.h"
#include "fovea/optim/part_rows.h"
#include "fovea/optim/update_loops.h"

namespace fovea::optim {
namespace {

bool is_plain_cpu(const at::Tensor& flat) {
  return flat.is_cpu() && flat.scalar_type() == at::kFloat && flat.is_contiguous();
}

bool is_counted(const ParamSpec& spec) { return spec.is_counted; }

// values: [U, E] -> [U, 1]
at::Tensor norm_of_rows(const at::Tensor& values) {
  return at::linalg_vector_norm(values, 2, 1, /*keepdim=*/true);
}

}  // namespace

double global_norm(const at::Tensor& flat) {
  if (!is_plain_cpu(flat)) {
    return at::linalg_vector_norm(flat, 2, std::nullopt, false, at::kDouble).item<double>();
  }
  return kernels::clip_state(flat, {}).const_data_ptr<double>()[kernels::kClipNorm];
}

double gradient_norm(Optimizer& optimizer) {
  const auto grad = optimizer.flat_grad();
  const auto& params = optimizer.params();
  std::array norm = {0.0};
  if (std::all_of(params.begin(), params.end(), is_counted)) {
    norm = {global_norm(grad)};
  } else {
    for (const auto& spec : params) {
      if (spec.is_counted) norm[0] = std::hypot(norm[0], global_norm(spec.param.grad()));
    }
  }
  join_norms(norm, optimizer.sum_over_parts());
  return norm[0];
}

namespace {

constexpr double kSmallestWeight = 1e-3, kSmallestGradient = 1e-6;  // of adaptive clipping
constexpr int64_t kGrain = 1 << 16;  // elements that are worth a thread

// What a gradient is multiplied by. norm, weights: of gradients and weights, of one shape.
at::Tensor adaptive_factor(const at::Tensor& norm, const at::Tensor& weights, double max_ratio) {
  const auto limit = weights.clamp_min(kSmallestWeight) * max_ratio;
  return at::where((norm < limit).logical_or(norm.isfinite().logical_not()), at::ones_like(norm),
                   limit / norm.clamp_min(kSmallestGradient));
}

// The units of a parameter that is clipped adaptively.
int64_t num_units(const ParamSpec& spec) { return spec.shape().size() > 1 ? spec.shape()[0] : 1; }

// What this process has of the units of a parameter.
struct UnitRows {
  PartRows rows;
  at::Tensor units;  // [rows] int64: which units of the whole they belong to
};

UnitRows unit_rows(const ParamSpec& spec, const at::Tensor& part) {
  const auto whole = spec.whole_part();
  const auto shape = kernels::cut_shape(whole);
  const auto units =
      shape.size() > 1 ? kernels::indices_in_whole(whole, 0) : at::zeros({1}, at::kLong);
  const auto rows = whole_rows(part, spec.first(), c10::multiply_integers(shape) / units.size(0));
  return {rows, units.narrow(0, rows.begin, rows.values.size(0))};
}

// As clip_gradients_adaptively: the squares of all units are summed over the processes at once.
void clip_parts_adaptively(const std::vector<ParamSpec>& params, double max_ratio,
                           const SumOverParts& sum) {
  int64_t total = 0;
  for (const auto& spec : params) total += num_units(spec);
  const auto squares = at::zeros({2, total}, at::kDouble);  // of gradients, of weights
  int64_t begin = 0;
  for (const auto& spec : params) {
    if (spec.param.numel() > 0 && spec.is_counted) {
      const std::array<at::Tensor, 2> parts = {spec.param.grad(), spec.param.detach()};
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto [rows, units] = unit_rows(spec, parts[i]);
        squares[static_cast<int64_t>(i)]
            .narrow(0, begin, num_units(spec))
            .index_copy_(0, units, rows.values.to(at::kDouble).square().sum(1).cpu());
      }
    }
    begin += num_units(spec);
  }
  sum(squares);
  const auto norms = squares.sqrt();
  const auto factors = adaptive_factor(norms[0], norms[1], max_ratio);  // [total]
  begin = 0;
  for (const auto& spec : params) {
    if (spec.param.numel() > 0) {
      auto grad = spec.param.grad();
      const auto [rows, units] = unit_rows(spec, grad);
      const auto of_rows = factors.narrow(0, begin, num_units(spec))
                               .index_select(0, units)
                               .to(grad.options())
                               .unsqueeze(1)
                               .expand_as(rows.values);
      grad.mul_(part_of_rows(rows, of_rows, grad.numel()).view_as(grad));
    }
    begin += num_units(spec);
  }
}

}  // namespace

void clip_gradients_adaptively(const std::vector<ParamSpec>& params, double max_ratio,
                               const SumOverParts& sum) {
  FOVEA_CHECK(max_ratio > 0, "clip_gradients_adaptively: max_ratio={}; expected more than 0",
              max_ratio);
  const at::NoGradGuard no_grad;
  if (sum) return clip_parts_adaptively(params, max_ratio, sum);
  for (const auto& spec : params) {
    auto grad = spec.param.grad();
    if (!grad.defined() || grad.numel() == 0) continue;
    const int64_t units = grad.dim() > 1 ? grad.size(0) : 1;
    const auto weights = spec.param.detach().reshape({units, -1});  // [units, elements of one]
    auto grads = grad.view({units, -1});
    if (!is_plain_cpu(grad) || !is_plain_cpu(weights)) {
      grads.mul_(adaptive_factor(norm_of_rows(grads), norm_of_rows(weights), max_ratio));
      continue;
    }
    const auto size = grads.size(1);
    const float* weight = weights.const_data_ptr<float>();
    float* values = grads.data_ptr<float>();
    kernels::cpu::for_ranges(units, 1 + kGrain / size, [&](int64_t first, int64_t last) {
      for (int64_t unit = first; unit < last; ++unit) {
        const double norm = std::sqrt(kernels::cpu::sum_of_squares(values + unit * size, size));
        const double limit =
            max_ratio * std::max(kSmallestWeight, std::sqrt(kernels::cpu::sum_of_squares(
                                                      weight + unit * size, size)));
        if (norm < limit || !std::isfinite(norm)) continue;
        scale(values + unit * size, size,
              static_cast<float>(limit / std::max(norm, kSmallestGradient)));
      }
    });
  }
}

bool scale_gradients(const at::Tensor& flat_grad, const at::Tensor& clip_state) {
  if (flat_grad.is_meta()) return true;  // no value is there to be scaled, or to be bad
  const at::NoGradGuard no_grad;
  const auto host = clip_state.cpu();
  const auto* state = host.const_data_ptr<double>();
  if (state[kernels::kClipBad] != 0) return false;
  const double first = state[kernels::kClipScale], second = state[kernels::kClipFactor];
  if (first == 1 && second == 1) return true;
  if (is_plain_cpu(flat_grad)) {
    for_each_tile({{0, flat_grad.numel()}}, [&](size_t, int64_t begin, int64_t end) {
      auto* values = flat_grad.data_ptr<float>() + begin;
      kernels::cpu::scale_twice(values, values, end - begin, static_cast<float>(first),
                                static_cast<float>(second));
    });
  } else {
    flat_grad.mul_(first).mul_(second);
  }
  return true;
}

at::Tensor clip_state(Optimizer& optimizer, const kernels::ClipOptions& options) {
  const auto grad = optimizer.flat_grad();
  if (!optimizer.sum_over_parts()) return kernels::clip_state(grad, options);
  const at::NoGradGuard no_grad;
  const auto square_of = [&](const at::Tensor& own) {
    return kernels::clip_state(own, {.grad_scale = options.grad_scale})
        .narrow(0, kernels::kClipNorm, 1)
        .square();
  };
  const auto& params = optimizer.params();
  at::Tensor square;  // [1]
  if (std::all_of(params.begin(), params.end(), is_counted)) {
    square = square_of(grad);
  } else {
    square = at::zeros({1}, grad.options().dtype(at::kDouble));
    for (const auto& spec : params) {
      if (spec.is_counted) square += square_of(spec.param.grad().reshape({-1}));
    }
  }
  optimizer.sum_over_parts()(square);
  const auto norm = square.sqrt();
  const auto factor =
      options.max_norm == 0 ? at::ones_like(norm) : (options.max_norm / (norm + 1e-6)).clamp_max(1);
  auto is_finite = norm.isfinite();
  if (options.loss.defined()) is_finite = is_finite.logical_and(options.loss.isfinite());
  if (options.before.defined()) {
    is_finite = is_finite.logical_and(options.before.narrow(0, kernels::kClipBad, 1) == 0);
  }
  const auto state = at::empty({kernels::kClipElements}, norm.options());
  state.narrow(0, kernels::kClipNorm, 1).copy_(norm);
  state.narrow(0, kernels::kClipFactor, 1).copy_(factor);
  state.narrow(0, kernels::kClipBad, 1).copy_(is_finite.logical_not());
  state.narrow(0, kernels::kClipScale, 1).fill_(options.grad_scale);
  return state;
}

at::Tensor clipped_state(double norm, bool is_finite, c10::Device device) {
  std::array<double, kernels::kClipElements> state = {};
  state[kernels::kClipNorm] = norm;
  state[kernels::kClipFactor] = state[kernels::kClipScale] = 1;
  state[kernels::kClipBad] = is_finite ? 0 : 1;
  return at::tensor(at::ArrayRef<double>(state), at::kDouble).to(device);
}

double clip_gradients(Optimizer& optimizer, double max_norm, double max_value) {
  FOVEA_CHECK(max_norm >= 0 && max_value >= 0,
              "clip_gradients: max_norm={}, max_value={}; expected 0 (off) or more", max_norm,
              max_value);
  const at::NoGradGuard no_grad;
  const double norm = gradient_norm(optimizer);
  if (!std::isfinite(norm)) return norm;
  const auto flat_grad = optimizer.flat_grad();
  const bool is_plain = is_plain_cpu(flat_grad);
  const std::vector<Segment> whole = {{0, flat_grad.numel()}};
  if (max_value > 0 && is_plain) {
    for_each_tile(whole, [&](size_t, int64_t begin, int64_t end) {
      clamp(flat_grad.data_ptr<float>() + begin, end - begin, static_cast<float>(max_value));
    });
  } else if (max_value > 0) {
    flat_grad.clamp_(-max_value, max_value);
  }
  if (max_norm == 0) return norm;
  const double factor = max_norm / ((max_value > 0 ? gradient_norm(optimizer) : norm) + 1e-6);
  if (factor >= 1) return norm;
  if (is_plain) {
    for_each_tile(whole, [&](size_t, int64_t begin, int64_t end) {
      scale(flat_grad.data_ptr<float>() + begin, end - begin, static_cast<float>(factor));
    });
  } else {
    flat_grad.mul_(factor);
  }
  return norm;
}

}  // namespace fovea::optim
