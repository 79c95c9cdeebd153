#include "fovea/kernels/cpu_memory_pool.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <thread>

#include "fovea/kernels/cpu_allocator.h"

namespace fovea::kernels {
namespace {

at::Tensor pool_bytes(int64_t count) { return at::empty({count}, at::kByte); }

class CpuMemoryPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    use_caching_cpu_allocator();
    const CpuMemoryPoolScope scope(pool_.get());
    pool_bytes(1);
    if (pool_->bytes() == 0) GTEST_SKIP() << "skipped: sanitized build";
  }

  std::shared_ptr<CpuMemoryPool> pool_ = CpuMemoryPool::make();
};

TEST_F(CpuMemoryPoolTest, PlacesAreGivenAgainToItsScopesAlone) {
  const void* place = nullptr;
  {
    const CpuMemoryPoolScope scope(pool_.get());
    place = pool_bytes(100'000).data_ptr();
    EXPECT_TRUE(pool_->has(place));
    const auto held = pool_bytes(90'000);
    EXPECT_EQ(held.data_ptr(), place);
    EXPECT_NE(pool_bytes(90'000).data_ptr(), place) << "which is taken";
    EXPECT_FALSE(pool_->has(pool_bytes(0).data_ptr()));
    const void* of_another_thread = nullptr;
    std::thread([&] { of_another_thread = pool_bytes(90'000).data_ptr(); }).join();
    EXPECT_FALSE(pool_->has(of_another_thread));
    const CpuMemoryPoolScope outside(nullptr);
    EXPECT_FALSE(pool_->has(pool_bytes(90'000).data_ptr()));
  }
  EXPECT_FALSE(pool_->has(pool_bytes(90'000).data_ptr()));
  EXPECT_TRUE(pool_->has(place)) << "kept, although nobody uses it";
}

TEST_F(CpuMemoryPoolTest, ASmallTensorTakesNoLargePlace) {
  const CpuMemoryPoolScope scope(pool_.get());
  pool_bytes(1'000'000);
  const auto before = pool_->bytes();
  const auto small = pool_bytes(100'000);
  EXPECT_GE(pool_->bytes(), before + 100'000);
  EXPECT_LT(pool_->bytes(), before + 110'000);
}

TEST_F(CpuMemoryPoolTest, LivesAsLongAsItsTensors) {
  at::Tensor tensor;
  {
    const CpuMemoryPoolScope scope(pool_.get());
    tensor = pool_bytes(5000).fill_(7);
  }
  const std::weak_ptr<CpuMemoryPool> watched = pool_;
  pool_.reset();
  ASSERT_FALSE(watched.expired());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0U);
  EXPECT_TRUE(tensor.eq(7).all().item<bool>());
  std::thread([&] { tensor.reset(); }).join();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace fovea::kernels
