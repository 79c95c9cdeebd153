// Orthogonalisation of matrices by products alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::optim {

// For a matrix U S V^T: about U V^T. x: [M, N] float32 -> [M, N]. `steps` rounds of the quintic
// iteration of Newton and Schulz with the coefficients of K. Jordan ("Muon: an optimizer for hidden
// layers in neural networks", 2024), which stop with singular values between about 0.7 and 1.2;
// torch.optim.Muon has the same. On the CPU in float32, the same bits for any number of threads;
// elsewhere in bfloat16, as torch, which is also the result's dtype there.
at::Tensor newton_schulz(const at::Tensor& x, int64_t steps);

}  // namespace fovea::optim
