// Gradient clipping over flat buffers. Sums are in float64 and cut into chunks by size alone, so a
// norm is the same bit for bit for any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/optim/optimizer.h"

namespace fovea::optim {

// Euclidean norm of a flat float32 tensor. Not finite where an element is not.
double global_norm(const at::Tensor& flat);
// That of all of an optimizer's gradients. Collective where parameters are parts.
double gradient_norm(Optimizer& optimizer);

// Clips each element of an optimizer's gradients to [-max_value, max_value], then scales all so
// that their norm is at most max_norm (torch's clip_grad_norm_: factor max_norm / (norm + 1e-6), at
// most 1); 0 switches either off. Returns the norm before both. Gradients whose norm is not finite
// are left as they are: the caller decides. Collective where parameters are parts.
double clip_gradients(Optimizer& optimizer, double max_norm, double max_value = 0);

// Multiplies by what a kernels::clip_state says, to the bits that AdamW's pass multiplies; false,
// and nothing done, where it says that something is not finite. Waits for the state.
bool scale_gradients(const at::Tensor& flat_grad, const at::Tensor& clip_state);

// kernels::clip_state of all of an optimizer's gradients. Collective where parameters are parts,
// and then the host waits for no device either.
at::Tensor clip_state(Optimizer& optimizer, const kernels::ClipOptions& options);

// A clip_state of gradients that are clipped already, by which they count as they are; norm: of
// before. is_finite: false: no value is to change.
at::Tensor clipped_state(double norm, bool is_finite, c10::Device device);

// Adaptive gradient clipping (Brock et al., "High-performance large-scale image recognition without
// normalization", ICML 2021) with timm's formula: of every parameter with two or more dims each
// part along dim 0 by itself, of the others the whole, has a gradient whose norm is at most
// max_ratio times that of the weights, which counts as 1e-3 at least. A gradient whose norm is not
// finite is left as it is.
void clip_gradients_adaptively(const std::vector<ParamSpec>& params, double max_ratio,
                               const SumOverParts& sum = {});

}  // namespace fovea::optim
