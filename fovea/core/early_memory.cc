#include "fovea/core/early_memory.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdlib>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace fovea {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
constexpr size_t kLeastTaken = size_t{64} << 10;
// Touched in one call, which mappings of other threads have to wait for.
constexpr size_t kAtOnce = size_t{256} << 10;
// A virtual machine whose host has taken its free huge pages back waits for each of them longer
// than for small pages, which the host leaves alone.
constexpr int64_t kMostForHugePage = 1'000'000;  // ns; in place, one takes a fifth of that

int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

size_t whole_pages(size_t size) { return (size + kPage - 1) / kPage * kPage; }

struct Pages {
  char* begin = nullptr;
  size_t size = 0;

  bool has(const void* data) const { return data >= begin && data < begin + size; }
  // Nothing is lost where the system will not.
  void touch() const {
    const auto start = reinterpret_cast<uintptr_t>(begin);
    size_t at = std::min(size, -start % kHugePage);
    touch_small({begin, at});
    madvise(begin + at, size - at, MADV_HUGEPAGE);
    for (bool is_fast = true; is_fast && size - at >= kHugePage; at += kHugePage) {
      const int64_t before = now();
      madvise(begin + at, kHugePage, MADV_POPULATE_WRITE);
      is_fast = now() - before < kMostForHugePage;
    }
    madvise(begin + at, size - at, MADV_NOHUGEPAGE);
    touch_small({begin + at, size - at});
  }

 private:
  static void touch_small(const Pages& pages) {
    for (size_t at = 0; at < pages.size; at += kAtOnce) {
      madvise(pages.begin + at, std::min(kAtOnce, pages.size - at), MADV_POPULATE_WRITE);
    }
  }
};

// Written once, before there are threads.
Pages heap;
Pages region;
std::atomic<size_t> num_taken = 0;  // bytes of the region

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

bool has_two_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
}

// Of memory with several parts, each near to other processors, pages belong where the thread is
// that will use them most.
bool is_one_node() { return access("/sys/devices/system/node/node1", F_OK) != 0; }

// The end of malloc's memory, grown by `size`. Malloc is told to keep and to map what it would
// after a while by itself (M_MMAP_THRESHOLD in mallopt(3)), which it no longer finds out once it
// has been told anything.
Pages grown_heap(size_t size) {
  constexpr int kMostMapped = 32 << 20, kDefaultPad = 128 << 10;
  if (size == 0) return {};
  size = std::min<size_t>(size, INT_MAX);
  mallopt(M_MMAP_THRESHOLD, kMostMapped);
  mallopt(M_TRIM_THRESHOLD, 2 * kMostMapped);
  mallopt(M_TOP_PAD, static_cast<int>(size));
  void* const first = std::malloc(2 * kDefaultPad);  // more than is there: it grows by the pad, too
  mallopt(M_TOP_PAD, kDefaultPad);
  const auto begin = whole_pages(reinterpret_cast<uintptr_t>(first));
  const auto end = reinterpret_cast<uintptr_t>(sbrk(0)) / kPage * kPage;
  std::free(first);
  if (begin > end || end - begin > 2 * size) return {};  // it took no part of the heap
  return {reinterpret_cast<char*>(begin), end - begin};
}

Pages mapped(size_t size) {
  if (size == 0) return {};
  void* const begin =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return {};
  return {static_cast<char*>(begin), size};
}

void* touch_all(void*) {
  heap.touch();
  region.touch();
  return nullptr;
}

#endif

}  // namespace

void fetch_early_memory([[maybe_unused]] const EarlyMemory& wanted) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (!has_two_processors()) return;
  heap = grown_heap(wanted.heap);
  if (is_one_node()) region = mapped(whole_pages(wanted.region));
  pthread_t thread;
  if (pthread_create(&thread, nullptr, touch_all, nullptr) == 0) pthread_detach(thread);
#endif
}

void* take_early_memory(size_t size) {
  if (size < kLeastTaken) return nullptr;
  size = whole_pages(size);
  size_t begin = num_taken.load(std::memory_order_relaxed);
  do {
    if (size > region.size - begin) return nullptr;
  } while (!num_taken.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed));
  return region.begin + begin;
}

bool give_back_early_memory(void* data, size_t size) {
  if (!region.has(data)) return false;
  madvise(data, whole_pages(size), MADV_DONTNEED);
  return true;
}

}  // namespace fovea
