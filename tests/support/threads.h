// Results that must not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace fovea::support {

// Runs `compute` with 1, 2 and 3 threads and compares every tensor bit for bit.
void expect_same_bits_for_any_threads(const std::function<std::vector<at::Tensor>()>& compute);

}  // namespace fovea::support
