// The leaves of patch trees as a tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "fovea/data/adaptive/tree.h"

namespace fovea::train {

struct BoxForm {
  int64_t num_trees = 1;     // of a sample
  int64_t fixed_length = 0;  // patches of a tree
  int64_t dims = 2;          // 2 or 3
};

// trees: [B * T], those of a sample one behind the other, none with more than fixed_length leaves.
// -> [B, T, L, 2, d] int64 on the CPU: first pixel and sides of each leaf in the order of the
// image's sides; zeros where a patch has none.
at::Tensor boxes_of(std::span<const data::PatchTree> trees, const BoxForm& form);

}  // namespace fovea::train
