// GELU of bfloat16, computed in float32 with the normal distribution function Phi, rounded once, on
// a processor with AVX-512 BF16. bfloat16 values are their 16-bit patterns.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// y = x Phi(x): relative error below 2e-5 before rounding, in the tails as well. y may be x.
void gelu(const uint16_t* x, int64_t count, uint16_t* y);

// dx = dy (Phi(x) + x phi(x)), phi the density. dx may be dy.
void gelu_backward(const uint16_t* dy, const uint16_t* x, int64_t count, uint16_t* dx);

// That with y as well, in one pass and with the bits of both. dx may be dy.
void gelu_again(const uint16_t* dy, const uint16_t* x, int64_t count, uint16_t* dx, uint16_t* y);

}  // namespace fovea::kernels::cpu
