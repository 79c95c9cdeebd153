// What the blocks of a transformer see of patches: in one pass over memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// patches: [B, N, D]; position: [1, N, D], added to those of each sample; prefix: [1, P, D], tokens
// in front of each sample's; either may be undefined -> [B, P + N, D] in the dtype of patches, with
// the bits of libtorch's operations one by one, which it takes but for float32 on a CPU without a
// gradient to record.
at::Tensor join_tokens(const at::Tensor& prefix, const at::Tensor& patches,
                       const at::Tensor& position);

}  // namespace fovea::kernels
