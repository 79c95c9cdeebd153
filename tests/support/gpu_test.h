// Fixture of the tests that need a GPU.
#pragma once

#include <gtest/gtest.h>

#include "fovea/kernels/device.h"

namespace fovea::support {

// Skipped, and said so, where there is no GPU.
template <class Base = testing::Test>
class GpuTest : public Base {
 protected:
  void SetUp() override {
    const auto& backend = kernels::load_cuda_backend();
    if (!backend.is_loaded) GTEST_SKIP() << "skipped: no GPU (" << backend.reason << ")";
  }
};

}  // namespace fovea::support
