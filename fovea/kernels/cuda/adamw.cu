// The kernels of adamw.h. The formulas are those of update_elements.h, which the CPU's loops have
// too.
#include "fovea/kernels/cuda/adamw.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

constexpr int kUpdateThreads = 256;
constexpr int kNormThreads = 512;
constexpr int kWidth = kVector<float>;

// W elements from `at` on.
template <int W>
__device__ __forceinline__ void update(const AdamWTensors& t, const AdamWCoefficients& c,
                                       const GradFactors& factors, int64_t at) {
  float param[W], grad[W], first[W], second[W];
  load<W>(t.param + at, param);
  load<W>(t.grad + at, grad);
  load<W>(t.exp_avg + at, first);
  load<W>(t.exp_avg_sq + at, second);
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const float scaled = rounded_product(rounded_product(grad[i], factors.scale), factors.clip);
    adamw_element(c, scaled, param[i], first[i], second[i]);
  }
  store<W>(param, t.param + at);
  store<W>(first, t.exp_avg + at);
  store<W>(second, t.exp_avg_sq + at);
  if (t.copy) store<W>(param, static_cast<BFloat16*>(t.copy) + at);
  if (!t.average) return;
  float average[W];
  load<W>(t.average + at, average);
#pragma unroll
  for (int i = 0; i < W; ++i) average[i] = lerp_element(average[i], param[i], c.average_weight);
  store<W>(average, t.average + at);
}

// One block does one tile.
__global__ void __launch_bounds__(kUpdateThreads)
    adamw_kernel(AdamWTensors tensors, const AdamWTile* tiles, const AdamWCoefficients* groups) {
  if (tensors.clip && tensors.clip[kClipBad] != 0) return;
  const auto factors = tensors.clip ? grad_factors(tensors.clip) : GradFactors();
  const AdamWTile tile = tiles[blockIdx.x];
  const AdamWCoefficients c = groups[tile.group];
  const auto thread = static_cast<int64_t>(threadIdx.x);
  const int64_t whole = tile.count / kWidth * kWidth;
  for (int64_t i = thread * kWidth; i < whole; i += kUpdateThreads * kWidth) {
    update<kWidth>(tensors, c, factors, tile.begin + i);
  }
  if (whole + thread < tile.count) update<1>(tensors, c, factors, tile.begin + whole + thread);
}

// Sum over a block; thread 0 has it.
__device__ __forceinline__ double sum_over_block(double value) {
  double sum[1] = {value};
  sum_over_x(sum, shared_memory<double>());
  return sum[0];
}

// parts[blockIdx.x] = the sum of squares of kNormChunk elements, each times scale.
__global__ void __launch_bounds__(kNormThreads)
    squares_kernel(const float* grad, int64_t count, float scale, double* parts) {
  const int64_t begin = blockIdx.x * kNormChunk;
  const int64_t end = begin + kNormChunk < count ? begin + kNormChunk : count;
  const int64_t whole = begin + (end - begin) / kWidth * kWidth;
  const auto thread = static_cast<int64_t>(threadIdx.x);
  double sum = 0;
  for (int64_t i = begin + thread * kWidth; i < whole; i += kNormThreads * kWidth) {
    float values[kWidth];
    load<kWidth>(grad + i, values);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const double value = rounded_product(values[j], scale);
      sum += value * value;
    }
  }
  if (whole + thread < end) {
    const double value = rounded_product(grad[whole + thread], scale);
    sum += value * value;
  }
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kNormThreads)
    clip_kernel(const double* parts, int64_t num_parts, ClipInputs inputs, double* state) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < num_parts; i += kNormThreads) sum += parts[i];
  sum = sum_over_block(sum);
  if (threadIdx.x != 0) return;
  const double norm = sqrt(sum);
  // None holds of a NaN.
  const bool is_finite = norm < INFINITY && (!inputs.loss || fabs(*inputs.loss) < INFINITY) &&
                         (!inputs.before || inputs.before[kClipBad] == 0);
  state[kClipNorm] = norm;
  state[kClipFactor] = clip_factor(norm, inputs.max_norm);
  state[kClipBad] = is_finite ? 0 : 1;
  state[kClipScale] = inputs.grad_scale;
}

}  // namespace

void adamw_step(const AdamWTensors& tensors, const AdamWTile* tiles, int64_t num_tiles,
                const AdamWCoefficients* groups, Stream stream) {
  launch(adamw_kernel, {.grid = static_cast<unsigned>(num_tiles), .block = kUpdateThreads}, stream,
         tensors, tiles, groups);
}

int64_t norm_parts(int64_t count) { return (count + kNormChunk - 1) / kNormChunk; }

void clip_state(const float* grad, int64_t count, const ClipInputs& inputs, double* parts,
                double* state, Stream stream) {
  const int64_t P = norm_parts(count);
  const size_t shared = kWarp * sizeof(double);
  launch(squares_kernel,
         {.grid = static_cast<unsigned>(P), .block = kNormThreads, .shared_bytes = shared}, stream,
         grad, count, static_cast<float>(inputs.grad_scale), parts);
  launch(clip_kernel, {.grid = 1, .block = kNormThreads, .shared_bytes = shared}, stream,
         static_cast<const double*>(parts), P, inputs, state);
}

}  // namespace fovea::kernels::cuda
