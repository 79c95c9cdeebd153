#include "fovea/core/early_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace fovea {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Once a process: a second test of it would find what this one has left.
TEST(EarlyMemoryTest, GivesTheRegionOnceAndNoMore) {
  EXPECT_EQ(take_early_memory(1), nullptr) << "there is none yet";
  fetch_early_memory({.heap = 4 * kMiB, .region = 8 * kMiB});
  auto* first = static_cast<uint8_t*>(take_early_memory(3 * kMiB + 1));
  if (first == nullptr) GTEST_SKIP() << "skipped: one processor, or a sanitized build";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 4096, 0U);
  std::memset(first, 1, 3 * kMiB + 1);

  std::set<void*> others;
  std::vector<std::thread> threads;
  std::vector<std::vector<void*>> taken(4);
  for (auto& of_thread : taken) {
    threads.emplace_back([&of_thread] {
      while (auto* memory = take_early_memory(kMiB / 4)) {
        std::memset(memory, 2, kMiB / 4);
        of_thread.push_back(memory);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& of_thread : taken) others.insert(of_thread.begin(), of_thread.end());
  EXPECT_EQ(others.size(), 19U);  // 5 MiB without the page of the first one's last byte
  EXPECT_EQ(first[3 * kMiB], 1);

  EXPECT_TRUE(give_back_early_memory(first, 3 * kMiB + 1));
  EXPECT_EQ(first[3 * kMiB], 0) << "its pages went to the system";
  EXPECT_EQ(static_cast<uint8_t*>(*others.begin())[kMiB / 4 - 1], 2);
  std::vector<uint8_t> own(kMiB);
  EXPECT_FALSE(give_back_early_memory(own.data(), own.size()));
}

}  // namespace
}  // namespace fovea
