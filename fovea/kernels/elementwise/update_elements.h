// What updates do to one element: the same formulas for the loops on the CPU and the kernels on a
// GPU. Free of tensors.
#pragma once

#include <cmath>
#include <cstdint>

// Inlined into each caller, so that a loop is compiled for the caller's instruction set.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define FOVEA_ELEMENT __host__ __device__ __attribute__((always_inline)) inline
#else
#define FOVEA_ELEMENT __attribute__((always_inline)) inline
#endif

namespace fovea::kernels {

struct AdamWCoefficients {
  float decay;  // 1 - lr * weight_decay
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float inverse_root;  // 1 / sqrt(1 - beta2^t)
  float eps;
  float step_size;  // lr / (1 - beta1^t)
  // Where there is an average of the parameters: what is taken in of the new ones.
  float average_weight = 0;
};

// A step of AdamW with gradient g.
FOVEA_ELEMENT void adamw_element(const AdamWCoefficients& c, float g, float& param, float& exp_avg,
                                 float& exp_avg_sq) {
  const float m = exp_avg + c.one_minus_beta1 * (g - exp_avg);
  const float v = c.beta2 * exp_avg_sq + c.one_minus_beta2 * g * g;
  exp_avg = m;
  exp_avg_sq = v;
  const float root = sqrtf(v) * c.inverse_root + c.eps;
  param = c.decay * param - c.step_size * (m / root);
}

// average + weight * (value - average), and exactly `value` for weight 1.
FOVEA_ELEMENT float lerp_element(float average, float value, float weight) {
  return weight < 0.5f ? average + weight * (value - average)
                       : value - (1.0f - weight) * (value - average);
}

// Elements of the state that clip_state (adamw.h) makes.
enum ClipElement { kClipNorm, kClipFactor, kClipBad, kClipScale, kClipElements };

// Elements of one partial sum of a norm: part of what its bits are.
inline constexpr int64_t kNormChunk = 1 << 16;

// What gradients are multiplied by, one after the other.
struct GradFactors {
  float scale = 1, clip = 1;
};
FOVEA_ELEMENT GradFactors grad_factors(const double* clip_state) {
  return {static_cast<float>(clip_state[kClipScale]), static_cast<float>(clip_state[kClipFactor])};
}

// What a gradient whose norm is `norm` is multiplied by to have one of max_norm at most; 0: no
// limit. As torch's clip_grad_norm_.
FOVEA_ELEMENT double clip_factor(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1 ? factor : 1;
}

}  // namespace fovea::kernels
