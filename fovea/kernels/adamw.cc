#include "fovea/kernels/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/adamw_loop.h"
#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr int64_t kNumCoefficients = sizeof(AdamWCoefficients) / sizeof(float);
static_assert(kNumCoefficients == 7);

const auto& adamw_step_op() {
  static const auto op =
      find_operator<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                         const OptionalTensor&, double, const OptionalTensor&)>(
          "fovea::adamw_step");
  return op;
}

const auto& clip_state_op() {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, double)>("fovea::clip_state");
  return op;
}

void check_buffer(const char* name, const at::Tensor& buffer, const at::Tensor& param,
                  at::ScalarType dtype) {
  FOVEA_CHECK(buffer.defined() && buffer.sizes() == param.sizes() && buffer.is_contiguous() &&
                  buffer.scalar_type() == dtype && buffer.device() == param.device(),
              "adamw_step: {} is {}; expected {} elements of {} on {}, as param has", name,
              buffer.defined() ? buffer.toString() : "undefined", param.numel(),
              c10::toString(dtype), param.device().str());
}

void check_tiles(const at::Tensor& tiles, const at::Tensor& param) {
  FOVEA_CHECK(tiles.defined() && tiles.dim() == 2 && tiles.size(1) == kAdamWTileColumns &&
                  tiles.scalar_type() == at::kLong && tiles.is_contiguous() &&
                  tiles.device() == param.device(),
              "adamw_step: the table of tiles is {}; expected [T, {}] of int64 on {}",
              tiles.defined() ? tiles.toString() : "undefined", kAdamWTileColumns,
              param.device().str());
}

OptionalTensor if_defined(const at::Tensor& x) {
  return x.defined() ? OptionalTensor(x) : std::nullopt;
}

// The factor in `clip`; none: nothing is to be done.
std::optional<float> factor_in(const OptionalTensor& clip) {
  if (!clip) return 1.0f;
  const auto* state = clip->const_data_ptr<double>();
  if (state[2] != 0) return {};
  return static_cast<float>(state[1]);
}

// fovea::adamw_step on the CPU. coefficients: [G, 7] float32.
void adamw_step_cpu(const at::Tensor& param, const at::Tensor& grad, const at::Tensor& exp_avg,
                    const at::Tensor& exp_avg_sq, const at::Tensor& tiles,
                    const at::Tensor& coefficients, const OptionalTensor& clip,
                    const OptionalTensor& average, double average_weight,
                    const OptionalTensor& copy) {
  const auto factor = factor_in(clip);
  if (!factor) return;
  const auto scaled = *factor == 1.0f ? grad : grad * *factor;
  const auto* table = tiles.const_data_ptr<int64_t>();
  const auto* values = coefficients.const_data_ptr<float>();
  auto* params = param.mutable_data_ptr<float>();
  const auto* grads = scaled.const_data_ptr<float>();
  auto* first = exp_avg.mutable_data_ptr<float>();
  auto* second = exp_avg_sq.mutable_data_ptr<float>();
  at::parallel_for(0, tiles.size(0), 1, [&](int64_t begin_tile, int64_t end_tile) {
    for (int64_t t = begin_tile; t < end_tile; ++t) {
      const int64_t begin = table[3 * t], count = table[3 * t + 1], group = table[3 * t + 2];
      AdamWCoefficients c;
      std::memcpy(&c, values + group * kNumCoefficients, sizeof(c));
      cpu::adamw_update(params + begin, grads + begin, first + begin, second + begin, count, c);
    }
  });
  if (average) average->lerp_(param, average_weight);
  if (copy) copy->copy_(param);
}

// fovea::clip_state with libtorch's operators alone.
at::Tensor clip_state_cpu(const at::Tensor& grad, double max_norm) {
  const double norm =
      at::linalg_vector_norm(grad, 2, std::nullopt, false, at::kDouble).item<double>();
  const auto state = at::empty({3}, grad.options().dtype(at::kDouble));
  auto* values = state.mutable_data_ptr<double>();
  values[0] = norm;
  values[1] = clip_factor(norm, max_norm);
  values[2] = std::isfinite(norm) ? 0 : 1;
  return state;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "adamw_step(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, "
      "Tensor tiles, Tensor coefficients, Tensor? clip, Tensor(d!)? average, float "
      "average_weight, Tensor(e!)? copy) -> ()");
  m.def("clip_state(Tensor grad, float max_norm) -> Tensor");
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  m.impl("adamw_step", adamw_step_cpu);
  m.impl("clip_state", clip_state_cpu);
}

bool has_adamw_step(c10::Device device) { return has_kernel(adamw_step_op(), device); }

void adamw_step(const AdamWBuffers& buffers, const at::Tensor& tiles,
                const std::vector<AdamWCoefficients>& groups, const AdamWExtras& extras) {
  const auto& param = buffers.param;
  FOVEA_CHECK(param.defined() && param.dim() == 1 && !groups.empty(),
              "adamw_step: param is {}, {} groups; expected one dim, and groups",
              param.defined() ? param.toString() : "undefined", groups.size());
  check_buffer("param", param, param, at::kFloat);
  check_buffer("grad", buffers.grad, param, at::kFloat);
  check_buffer("exp_avg", buffers.exp_avg, param, at::kFloat);
  check_buffer("exp_avg_sq", buffers.exp_avg_sq, param, at::kFloat);
  if (extras.average.defined()) check_buffer("average", extras.average, param, at::kFloat);
  if (extras.copy.defined()) check_buffer("copy", extras.copy, param, at::kBFloat16);
  check_tiles(tiles, param);
  const auto num_groups = static_cast<int64_t>(groups.size());
  const auto coefficients = at::empty({num_groups, kNumCoefficients}, at::kFloat);
  std::memcpy(coefficients.mutable_data_ptr<float>(), groups.data(),
              groups.size() * sizeof(AdamWCoefficients));
  adamw_step_op().call(param, buffers.grad, buffers.exp_avg, buffers.exp_avg_sq, tiles,
                       coefficients.to(param.device(), /*non_blocking=*/true),
                       if_defined(extras.clip), if_defined(extras.average), extras.average_weight,
                       if_defined(extras.copy));
}

at::Tensor clip_state(const at::Tensor& grad, double max_norm) {
  FOVEA_CHECK(max_norm >= 0 && grad.scalar_type() == at::kFloat,
              "clip_state: max_norm={}, gradients of {}; expected 0 (off) or more, and float32",
              max_norm, c10::toString(grad.scalar_type()));
  return clip_state_op().call(grad.contiguous(), max_norm);
}

}  // namespace fovea::kernels
