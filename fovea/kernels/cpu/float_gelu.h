// GELU of float32 with the normal distribution function Phi, on the path of KernelOp::kGelu.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// y = x Phi(x), 4e-7 from it at most up to |x| = 8, and to a rounding or two of x or of 1. y may be
// x. A value has the same bits wherever it stands.
void gelu(const float* x, int64_t count, float* y);

// dx = dy (Phi(x) + x phi(x)), phi the density. dx may be dy.
void gelu_backward(const float* dy, const float* x, int64_t count, float* dx);

// That with y as well, in one pass and with the bits of both. dx may be dy.
void gelu_again(const float* dy, const float* x, int64_t count, float* dx, float* y);

}  // namespace fovea::kernels::cpu
