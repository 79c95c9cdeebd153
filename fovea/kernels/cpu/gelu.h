// GELU with the normal distribution function Phi, x Phi(x). phi: its density. dx may be dy, and y
// x.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// Of float32, on the path of KernelOp::kGelu: 4e-7 from it at most up to |x| = 8, and to a rounding
// or two of x or of 1. A value has the same bits wherever it stands.
void gelu(const float* x, int64_t count, float* y);

// Of bfloat16, whose values are their 16-bit patterns, computed in float32 and rounded once, on a
// processor with AVX-512 BF16: before rounding at most 8e-7 from it, and 1e-3 of it, a quarter of
// what rounding makes, down to x = -5.7. Below it is 0, in place of -7e-8 and less.
void gelu(const uint16_t* x, int64_t count, uint16_t* y);

// dx = dy (Phi(x) + x phi(x)).
void gelu_backward(const float* dy, const float* x, int64_t count, float* dx);
void gelu_backward(const uint16_t* dy, const uint16_t* x, int64_t count, uint16_t* dx);

// That with y as well, in one pass and with the bits of both.
void gelu_again(const float* dy, const float* x, int64_t count, float* dx, float* y);
void gelu_again(const uint16_t* dy, const uint16_t* x, int64_t count, uint16_t* dx, uint16_t* y);

}  // namespace fovea::kernels::cpu
