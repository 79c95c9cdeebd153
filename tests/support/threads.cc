#include "tests/support/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/close.h"

namespace fovea::support {

void expect_same_bits_for_any_threads(const std::function<std::vector<at::Tensor>()>& compute,
                                      const std::vector<int>& numbers) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto expected = compute();
  for (const int threads : numbers) {
    at::set_num_threads(threads);
    const auto actual = compute();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_same_bits(actual[i], expected[i],
                       "tensor " + std::to_string(i) + ", " + std::to_string(threads) + " threads");
    }
  }
  at::set_num_threads(before);
}

}  // namespace fovea::support
