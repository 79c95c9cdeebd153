// Random numbers for the samples of a batch, each a function of a key, a step and the sample's own
// row alone: equal for any split into micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "fovea/kernels/elementwise/drop.h"

namespace fovea::train {

// All of them are drawn by the host, in a recorded step anew for each replay, and lie on `device`.

// key.rows: [B]. sides: what follows B, e.g. [C, H, W]. -> standard normals [B, sides] float32.
at::Tensor normal_rows(const kernels::DropKey& key, at::IntArrayRef sides,
                       c10::Device device = c10::kCPU);

// -> [B] int64, uniform in [0, count).
at::Tensor integer_rows(const kernels::DropKey& key, int64_t count, c10::Device device = c10::kCPU);

// -> [B] bool, true with this probability.
at::Tensor bernoulli_rows(const kernels::DropKey& key, double probability,
                          c10::Device device = c10::kCPU);

}  // namespace fovea::train
