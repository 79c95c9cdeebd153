// Random numbers for the samples of a batch, each a function of a key, a step and the sample's own
// row alone: equal for any split into micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "fovea/kernels/drop.h"

namespace fovea::train {

// key.rows: [B]. sides: what follows B, e.g. [C, H, W]. -> standard normals [B, sides] float32 on
// the CPU.
at::Tensor normal_rows(const kernels::DropKey& key, at::IntArrayRef sides);

// -> [B] int64 on the CPU, uniform in [0, count).
at::Tensor integer_rows(const kernels::DropKey& key, int64_t count);

// -> [B] bool on the CPU, true with this probability.
at::Tensor bernoulli_rows(const kernels::DropKey& key, double probability);

}  // namespace fovea::train
