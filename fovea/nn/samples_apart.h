// Inference in which threads take samples of a batch and carry them through many layers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <vector>

#include "fovea/nn/forward_context.h"
#include "fovea/nn/unit.h"

namespace fovea::nn {

// Note [Samples apart]
// Where all threads work on one layer of a whole batch, what a layer writes has left their caches
// when the next one reads it, and they wait for each other at each of them. A thread that takes a
// few samples through all blocks finds them in its own cache, and meets the others once. Every
// result has the same bits: the kernels of this processor, where that is done, compute it from its
// own sample in one order, whatever rows stand beside it.

// While alive, this thread's forwards may do so. For inference in which nobody counts or notes what
// layers are given: that would be in several threads at a time.
class SamplesApartScope {
 public:
  SamplesApartScope();

 private:
  ContextScope scope_;
};

// forward(inputs), for parts of the batch in several threads where that may be and pays. inputs:
// [B, ...], the first one [B, N, D], others undefined where they are not there; so the results,
// each of which is [B, ...]. units: what forward calls, none of which may be watched then.
std::vector<at::Tensor> forward_apart(
    const std::vector<UnitImpl*>& units, const std::vector<at::Tensor>& inputs,
    c10::function_ref<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> forward);

}  // namespace fovea::nn
