// What the tests of the CUDA back end share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/kernels/device.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"

namespace fovea::support {

// Against the CPU, by dtype; skipped, and said so, where there is no GPU.
class CudaTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!kernels::load_cuda_backend().is_loaded) {
      GTEST_SKIP() << "skipped: no GPU (" << kernels::load_cuda_backend().reason << ")";
    }
  }

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
