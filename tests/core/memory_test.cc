#include "fovea/core/memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace fovea {
namespace {

TEST(MemoryTest, PeakHoldsWhatWasTouched) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const int64_t before = peak_memory_bytes();
  EXPECT_GT(before, 0);
  {
    std::vector<char> block(static_cast<size_t>(kBytes));
    for (size_t i = 0; i < block.size(); i += 4096) block[i] = static_cast<char>(i);
    EXPECT_GE(peak_memory_bytes(), kBytes);
  }
  EXPECT_GE(peak_memory_bytes(), before);
  EXPECT_GE(peak_memory_bytes(), kBytes);  // freed, and still the peak
}

}  // namespace
}  // namespace fovea
