// Gradients of leaves that are added to on the way.
//
// Note [Gradients that products add to]
// Autograd adds what a backward pass makes of a leaf to its .grad in a node of its own: the product
// writes a temporary as large as the weight, and a pass over memory reads both and writes the sum.
// A product whose end can add does it at once, and gives autograd nothing to add; the node behind
// it runs as always, with its hooks. That is only so where nobody would see the difference: in a
// backward() of all leaves that records nothing, of a leaf that has a gradient to add to and no
// hook that wants to see what is added. autograd::grad(), which recomputation uses, gets what it
// asks for.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// Within the backward() of a Function that has `weight` as an input: its .grad, to which the
// Function may add in place of giving its gradient; else undefined. Of float32, contiguous.
at::Tensor gradient_to_add_to(const at::Tensor& weight);

}  // namespace fovea::kernels
