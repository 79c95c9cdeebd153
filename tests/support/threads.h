// Results that must not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace fovea::support {

// Runs `compute` with one thread and with these numbers of them, and compares every tensor bit for
// bit.
void expect_same_bits_for_any_threads(const std::function<std::vector<at::Tensor>()>& compute,
                                      const std::vector<int>& numbers = {2, 3});

}  // namespace fovea::support
