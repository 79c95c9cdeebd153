// The inner loops over flat buffers: one fused pass for each update, vectorised for the machine.
#pragma once

#include <cstdint>

namespace fovea::optim {

struct SgdCoefficients {
  float lr;
  float weight_decay;
  float momentum;
  float grad_share;  // 1 - dampening; 1 at the first step
  bool nesterov;
};

void sgd_update(float* param, const float* grad, int64_t count, const SgdCoefficients& c);
void sgd_momentum_update(float* param, const float* grad, float* momentum_buffer, int64_t count,
                         const SgdCoefficients& coefficients);

struct LambCoefficients {
  float grad_scale;  // what the gradient is multiplied by first
  float beta1;
  float grad_share;  // 1 - beta1; 1 without averaging
  float beta2;
  float one_minus_beta2;
  float inverse_root;  // 1 / sqrt(1 - beta2^t)
  float eps;
  float inverse_first;  // 1 / (1 - beta1^t)
};

// Both moments, and their quotient in `step`: what the parameter would move by, before decay and
// scaling.
void lamb_moments(const float* grad, float* exp_avg, float* exp_avg_sq, float* step, int64_t count,
                  const LambCoefficients& coefficients);

// values *= factor; values into [-limit, limit], a NaN stays one.
void scale(float* values, int64_t count, float factor);
void clamp(float* values, int64_t count, float limit);

void swap(float* a, float* b, int64_t count);

}  // namespace fovea::optim
