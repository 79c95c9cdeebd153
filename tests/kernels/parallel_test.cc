// What every CPU kernel stands on: libtorch's threads are there in our own code.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>

namespace fovea {
namespace {

TEST(ParallelTest, ParallelForUsesTheThreadsItIsGiven) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  std::atomic<int> parts = 0, threads_seen = 0;
  at::parallel_for(0, 30, 1, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(end - begin, 10);
    EXPECT_TRUE(at::in_parallel_region());
    parts += 1;
    threads_seen |= 1 << at::get_thread_num();
  });
  at::set_num_threads(before);
  EXPECT_EQ(parts, 3);
  EXPECT_EQ(threads_seen, 0b111);
}

}  // namespace
}  // namespace fovea
