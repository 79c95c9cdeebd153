// What the tests of the CUDA back end share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/close.h"
#include "tests/support/gpu_test.h"
#include "tests/support/gradcheck.h"

namespace fovea::support {

// Against the CPU, by dtype.
class CudaTest : public GpuTest<testing::TestWithParam<at::ScalarType>> {
 protected:
  // f on the GPU against f on the CPU in float64.
  static void compare(const TensorFunction& f, const std::vector<at::Tensor>& inputs) {
    std::vector<at::Tensor> moved, wide;
    for (const auto& x : inputs) {
      moved.push_back(x.to(at::kCUDA));
      wide.push_back(x.to(at::kDouble));
    }
    const auto actual = gradients(f, moved), expected = gradients(f, wide);
    EXPECT_TRUE(actual.output.is_cuda());
    expect_close(actual.output, expected.output, GetParam(), "output");
    for (size_t i = 0; i < inputs.size(); ++i) {
      expect_close(actual.inputs[i], expected.inputs[i], GetParam(),
                   "gradient of input " + std::to_string(i));
    }
  }
};

}  // namespace fovea::support
