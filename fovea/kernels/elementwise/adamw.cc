#include "fovea/kernels/elementwise/adamw.h"

#include <ATen/ops/empty.h>
#include <c10/core/TensorOptions.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/adamw_loop.h"
#include "fovea/kernels/cpu/flat_loops.h"
#include "fovea/kernels/cpu/norm_rows.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/host_part.h"
#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr int64_t kNumCoefficients = sizeof(AdamWCoefficients) / sizeof(float);
static_assert(kNumCoefficients == 8);

const auto& adamw_step_op() {
  static const auto op =
      find_operator<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                         const OptionalTensor&, const OptionalTensor&)>("fovea::adamw_step");
  return op;
}

const auto& clip_state_op() {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, double, double, const OptionalTensor&,
                               const OptionalTensor&)>("fovea::clip_state");
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

// None: nothing is to be done.
std::optional<GradFactors> factors_in(const OptionalTensor& clip) {
  if (!clip) return GradFactors();
  const auto* state = clip->const_data_ptr<double>();
  if (state[kClipBad] != 0) return {};
  return grad_factors(state);
}

// Null: not wanted.
struct AdamWPointers {
  float* param;
  const float* grad;
  float *exp_avg, *exp_avg_sq, *average;
  uint16_t* copy;  // the bits of bfloat16
};

// Elements [begin, begin + count), in pieces that stay in the first cache from loop to loop.
void update_tile(const AdamWPointers& at, int64_t begin, int64_t count, const AdamWCoefficients& c,
                 const GradFactors& factors) {
  constexpr int64_t kPiece = 1024;
  alignas(64) std::array<float, kPiece> scaled;
  const bool is_scaled = factors.scale != 1.0f || factors.clip != 1.0f;
  for (int64_t i = begin; i < begin + count; i += kPiece) {
    const int64_t size = std::min(kPiece, begin + count - i);
    const float* grad = at.grad + i;
    if (is_scaled) {
      cpu::scale_twice(grad, scaled.data(), size, factors.scale, factors.clip);
      grad = scaled.data();
    }
    cpu::adamw_update(at.param + i, grad, at.exp_avg + i, at.exp_avg_sq + i, size, c);
    if (at.average) cpu::lerp(at.average + i, at.param + i, size, c.average_weight);
    if (at.copy) cpu::float_to_bfloat16(at.param + i, size, at.copy + i);
  }
}

// fovea::adamw_step on the CPU. coefficients: [G, 8] float32.
void adamw_step_cpu(const at::Tensor& param, const at::Tensor& grad, const at::Tensor& exp_avg,
                    const at::Tensor& exp_avg_sq, const at::Tensor& tiles,
                    const at::Tensor& coefficients, const OptionalTensor& clip,
                    const OptionalTensor& average, const OptionalTensor& copy) {
  const auto factors = factors_in(clip);
  if (!factors) return;
  const AdamWPointers pointers{
      .param = param.mutable_data_ptr<float>(),
      .grad = grad.const_data_ptr<float>(),
      .exp_avg = exp_avg.mutable_data_ptr<float>(),
      .exp_avg_sq = exp_avg_sq.mutable_data_ptr<float>(),
      .average = average ? average->mutable_data_ptr<float>() : nullptr,
      .copy = copy ? static_cast<uint16_t*>(copy->mutable_data_ptr()) : nullptr};
  const auto* table = tiles.const_data_ptr<int64_t>();
  const auto* values = coefficients.const_data_ptr<float>();
  cpu::for_ranges(tiles.size(0), 1, [&](int64_t begin_tile, int64_t end_tile) {
    for (int64_t t = begin_tile; t < end_tile; ++t) {
      const int64_t* tile = table + kAdamWTileColumns * t;
      AdamWCoefficients c;
      std::memcpy(static_cast<void*>(&c), values + tile[2] * kNumCoefficients, sizeof(c));
      update_tile(pointers, tile[0], tile[1], c, *factors);
    }
  });
}

// Of values * scale. Cut into chunks by size alone, so that it is the same for any number of
// threads.
double norm_of(const at::Tensor& flat, float scale) {
  const float* values = flat.const_data_ptr<float>();
  const int64_t count = flat.numel(), chunks = (count + kNormChunk - 1) / kNormChunk;
  std::vector<double> partial(static_cast<size_t>(chunks));
  cpu::for_ranges(chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      partial[static_cast<size_t>(i)] = cpu::sum_of_squares(
          values + i * kNormChunk, std::min(kNormChunk, count - i * kNormChunk), scale);
    }
  });
  double sum = 0;
  for (const double part : partial) sum += part;
  return std::sqrt(sum);
}

// fovea::clip_state on the CPU.
at::Tensor clip_state_cpu(const at::Tensor& grad, double max_norm, double grad_scale,
                          const OptionalTensor& loss, const OptionalTensor& before) {
  const double norm = norm_of(grad, static_cast<float>(grad_scale));
  const bool is_finite = std::isfinite(norm) &&
                         (!loss || std::isfinite(*loss->const_data_ptr<double>())) &&
                         (!before || before->const_data_ptr<double>()[kClipBad] == 0);
  const auto state = at::empty({kClipElements}, grad.options().dtype(at::kDouble));
  auto* values = state.mutable_data_ptr<double>();
  values[kClipNorm] = norm;
  values[kClipFactor] = clip_factor(norm, max_norm);
  values[kClipBad] = is_finite ? 0 : 1;
  values[kClipScale] = grad_scale;
  return state;
}

// On the meta device: no element is touched, and nothing made but the state.
void adamw_step_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                     const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                     const OptionalTensor&, const OptionalTensor&) {}

at::Tensor clip_state_meta(const at::Tensor& grad, double /*max_norm*/, double /*grad_scale*/,
                           const OptionalTensor& /*loss*/, const OptionalTensor& /*before*/) {
  return at::empty({kClipElements}, grad.options().dtype(at::kDouble));
}

void check_state(const char* name, const at::Tensor& x, int64_t size, const at::Tensor& grad) {
  if (!x.defined()) return;
  FOVEA_CHECK(x.numel() == size && x.scalar_type() == at::kDouble && x.device() == grad.device() &&
                  x.is_contiguous(),
              "clip_state: {} is {} of {}; expected {} of float64 on {}", name, x.toString(),
              x.numel(), size, grad.device().str());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "adamw_step(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, "
      "Tensor tiles, Tensor coefficients, Tensor? clip, Tensor(d!)? average, Tensor(e!)? copy) -> "
      "()");
  m.def(
      "clip_state(Tensor grad, float max_norm, float grad_scale, Tensor? loss, Tensor? before) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  m.impl("adamw_step", adamw_step_cpu);
  m.impl("clip_state", clip_state_cpu);
}
TORCH_LIBRARY_IMPL(fovea, Meta, m) {
  m.impl("adamw_step", adamw_step_meta);
  m.impl("clip_state", clip_state_meta);
}

bool has_adamw_step(c10::Device device) { return has_kernel(adamw_step_op(), device); }

at::Tensor adamw_coefficients(const std::vector<AdamWCoefficients>& groups, c10::Device device) {
  FOVEA_CHECK(!groups.empty(), "adamw_step: no groups; expected one or more");
  return host_values({static_cast<int64_t>(groups.size()), kNumCoefficients}, at::kFloat, device,
                     [&groups](const at::Tensor& host) {
                       std::memcpy(host.mutable_data_ptr<float>(), groups.data(),
                                   groups.size() * sizeof(AdamWCoefficients));
                     });
}

void adamw_step(const AdamWBuffers& buffers, const at::Tensor& tiles,
                const at::Tensor& coefficients, const AdamWExtras& extras) {
  const auto& param = buffers.param;
  FOVEA_CHECK(param.defined() && param.dim() == 1, "adamw_step: param is {}; expected one dim",
              param.defined() ? param.toString() : "undefined");
  check_buffer("param", param, param, at::kFloat);
  check_buffer("grad", buffers.grad, param, at::kFloat);
  check_buffer("exp_avg", buffers.exp_avg, param, at::kFloat);
  check_buffer("exp_avg_sq", buffers.exp_avg_sq, param, at::kFloat);
  if (extras.average.defined()) check_buffer("average", extras.average, param, at::kFloat);
  if (extras.copy.defined()) check_buffer("copy", extras.copy, param, at::kBFloat16);
  check_tiles(tiles, param);
  FOVEA_CHECK(coefficients.dim() == 2 && coefficients.size(1) == kNumCoefficients &&
                  coefficients.scalar_type() == at::kFloat && coefficients.is_contiguous() &&
                  coefficients.device() == param.device(),
              "adamw_step: coefficients are {}; expected [G, {}] of float32 on {}",
              coefficients.toString(), kNumCoefficients, param.device().str());
  adamw_step_op().call(param, buffers.grad, buffers.exp_avg, buffers.exp_avg_sq, tiles,
                       coefficients, where_defined(extras.clip), where_defined(extras.average),
                       where_defined(extras.copy));
}

at::Tensor clip_state(const at::Tensor& grad, const ClipOptions& options) {
  FOVEA_CHECK(options.max_norm >= 0 && grad.scalar_type() == at::kFloat,
              "clip_state: max_norm={}, gradients of {}; expected 0 (off) or more, and float32",
              options.max_norm, c10::toString(grad.scalar_type()));
  check_state("loss", options.loss, 1, grad);
  check_state("before", options.before, kClipElements, grad);
  return clip_state_op().call(grad.contiguous(), options.max_norm, options.grad_scale,
                              where_defined(options.loss), where_defined(options.before));
}

}  // namespace fovea::kernels
