#include "fovea/kernels/cpu_allocator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <thread>
#include <vector>

#include "fovea/kernels/cpu/aligned_buffer.h"

namespace fovea {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

class CpuAllocatorTest : public testing::Test {
 protected:
  void SetUp() override {
    kernels::use_caching_cpu_allocator();
    bytes(kMiB);
    // Under AddressSanitizer the allocator stays out of the way.
    if (kernels::cpu_memory().kept_bytes == 0) GTEST_SKIP() << "skipped: sanitized build";
  }
};

TEST_F(CpuAllocatorTest, AFreedBlockServesTheNextOfItsSize) {
  auto first = bytes(10 * kMiB);
  const void* address = first.data_ptr();
  const auto in_use = kernels::cpu_memory().in_use_bytes;
  first.reset();
  EXPECT_LE(kernels::cpu_memory().in_use_bytes, in_use - 10 * kMiB);
  EXPECT_EQ(bytes(10 * kMiB - 100).data_ptr(), address);
}

TEST_F(CpuAllocatorTest, BlocksAreAlignedAndTheirOwn) {
  std::vector<at::Tensor> tensors;
  for (int64_t size = 1; size < 8 * kMiB; size = size * 3 + 1) {
    tensors.push_back(bytes(size).fill_(static_cast<int>(tensors.size())));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.back().data_ptr()) % 64, 0U);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(tensors[i].eq(static_cast<int>(i)).all().item<bool>()) << i;
  }
}

TEST_F(CpuAllocatorTest, WhatIsHeldStaysNearTheMostInUse) {
  // Sizes that never fit what was freed before: without a bound, the sum of all would be held.
  for (int64_t size = kMiB; size < 1000 * kMiB; size = size * 3 / 2) {
    bytes(size);
    const auto memory = kernels::cpu_memory();
    const auto slack = std::max(32 * kMiB, memory.peak_in_use_bytes / 32);
    EXPECT_LE(memory.in_use_bytes + memory.kept_bytes, memory.peak_in_use_bytes + slack);
  }
}

TEST_F(CpuAllocatorTest, OfKeptBlocksTheOldestGoesBackFirst) {
  const int64_t unit = std::max(kernels::cpu_memory().peak_in_use_bytes, 512 * kMiB) / 16;
  const auto rest = bytes(10 * unit);
  auto older = bytes(2 * unit), newer = bytes(4 * unit);  // now as much is in use as ever
  older.reset();
  newer.reset();
  const auto asked = bytes(unit * 3 / 2);  // neither suits
  EXPECT_GE(kernels::cpu_memory().kept_bytes, 4 * unit);
  EXPECT_LT(kernels::cpu_memory().kept_bytes, 5 * unit) << "the older one is still there";
}

TEST_F(CpuAllocatorTest, TooLargeABlockIsOutOfMemory) {
  EXPECT_THROW(bytes(int64_t{1} << 50), c10::OutOfMemoryError);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which end the process
TEST(AlignedBufferTest, OneThatIsTooLargeIsOutOfMemoryAndTheOldOneStays) {
  kernels::cpu::AlignedBuffer<float> buffer;
  auto* data = buffer.reserve(4);
  EXPECT_THROW(buffer.reserve(int64_t{1} << 48), std::bad_alloc);
  EXPECT_EQ(buffer.data(), data);
}
#endif

TEST_F(CpuAllocatorTest, EmptyTensorsNeedNoBlock) { EXPECT_EQ(bytes(0).numel(), 0); }

TEST_F(CpuAllocatorTest, ThreadsMayFreeWhatOthersMade) {
  const auto before = kernels::cpu_memory().in_use_bytes;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([made = bytes(kMiB)]() mutable {
      for (int k = 0; k < 200; ++k) made = at::ones({kMiB / 8 + k});
      made.reset();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(kernels::cpu_memory().in_use_bytes, before);
}

}  // namespace
}  // namespace fovea
