#include "fovea/kernels/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>

#include "fovea/core/early_memory.h"
#include "fovea/kernels/cpu_memory_pool.h"

namespace fovea::kernels {
namespace {

constexpr size_t kHeader = kCpuBlockHeader;    // keeps the data aligned to 64 bytes
constexpr size_t kMinKept = size_t{64} << 10;  // smaller blocks: malloc keeps those well
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int64_t kMinSlack = int64_t{32} << 20;

// Up to the next eighth of a power of two, so that nearly equal sizes share blocks; of large ones,
// which a step asks for in few sizes, to the next 32nd.
size_t rounded(size_t size) {
  const size_t step = std::max(kHeader, std::bit_floor(size) / (size >= kHugePage ? 32 : 8));
  return (size + step - 1) / step * step;
}

// Blocks by size. All public functions may be called from any thread.
class BlockCache {
 public:
  // nullptr when the system has no memory left.
  void* take(size_t size) {
    const std::lock_guard lock(mutex_);
    void* block = take_kept(size);
    if (!block) block = take_new(size);
    if (block) add_in_use(static_cast<int64_t>(block_size(block)));
    return block;
  }

  void give_back(void* block) {
    const std::lock_guard lock(mutex_);
    const auto size = static_cast<int64_t>(block_size(block));
    memory_.in_use_bytes -= size;
    memory_.kept_bytes += size;
    kept_[block_size(block)].push_back({block, ++num_given_back_});
  }

  void release_all() {
    const std::lock_guard lock(mutex_);
    while (!kept_.empty()) release_oldest();
  }

  CpuMemory memory() {
    const std::lock_guard lock(mutex_);
    return memory_;
  }

  // Around fork(): in the child a lock that another thread held would never be free again.
  void hold() { mutex_.lock(); }
  void let_go() { mutex_.unlock(); }

  static size_t block_size(const void* block) {
    size_t size = 0;
    std::memcpy(&size, block, sizeof(size));
    return size;
  }

 private:
  struct Kept {
    void* block;
    int64_t since;  // how many blocks had been given back by then
  };

  // The smallest kept block of at least `size`, if it wastes no more than a quarter.
  void* take_kept(size_t size) {
    const auto found = kept_.lower_bound(size);
    if (found == kept_.end() || found->first > size + size / 4) return nullptr;
    void* block = found->second.back().block;
    memory_.kept_bytes -= static_cast<int64_t>(found->first);
    found->second.pop_back();
    if (found->second.empty()) kept_.erase(found);
    return block;
  }

  void* take_new(size_t size) {
    const auto wanted = memory_.in_use_bytes + static_cast<int64_t>(size);
    const int64_t peak = std::max(memory_.peak_in_use_bytes, wanted);
    const int64_t most_held = peak + std::max(kMinSlack, peak / 32);
    while (!kept_.empty() && wanted + memory_.kept_bytes > most_held) release_oldest();
    void* block = from_system(size);
    while (!block && !kept_.empty()) {
      release_oldest();
      block = from_system(size);
    }
    return block;
  }

  static void* from_system(size_t size) {
    void* block = take_early_memory(size);
    if (!block) block = size >= kHugePage ? mapped(size) : std::aligned_alloc(kHeader, size);
    if (block) std::memcpy(block, &size, sizeof(size));
    return block;
  }

  // A large block is a mapping of its own, on a huge page's border: malloc may keep what it is
  // given.
  static void* mapped(size_t size) {
    const size_t reserved = size + kHugePage;
    void* const start =
        mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    const size_t before = -reinterpret_cast<uintptr_t>(start) % kHugePage;
    char* const block = static_cast<char*>(start) + before;
    if (before > 0) munmap(start, before);
    if (kHugePage > before) munmap(block + size, kHugePage - before);
    madvise(block, size, MADV_HUGEPAGE);  // advice: may be refused
    return block;
  }

  static void to_system(void* block) {
    const size_t size = block_size(block);
    if (give_back_early_memory(block, size)) return;
    if (size >= kHugePage) {
      munmap(block, size);
    } else {
      std::free(block);
    }
  }

  // Forward and backward passes want other sizes: what has lain there longest is wanted last.
  void release_oldest() {
    const auto oldest = std::ranges::min_element(
        kept_, {}, [](const auto& of_size) { return of_size.second.front().since; });
    memory_.kept_bytes -= static_cast<int64_t>(oldest->first);
    to_system(oldest->second.front().block);
    oldest->second.pop_front();
    if (oldest->second.empty()) kept_.erase(oldest);
  }

  void add_in_use(int64_t size) {
    memory_.in_use_bytes += size;
    memory_.peak_in_use_bytes = std::max(memory_.peak_in_use_bytes, memory_.in_use_bytes);
  }

  std::mutex mutex_;
  std::map<size_t, std::deque<Kept>> kept_;  // of each size, the oldest first
  int64_t num_given_back_ = 0;
  CpuMemory memory_;
};

// Never destroyed: tensors in static storage are freed after main.
BlockCache& cache() {
  static auto* const instance = new BlockCache;
  return *instance;
}

// Data lies kHeader bytes into its block; the block's first word is its size, 0 for malloc's, and
// kPooledBlock for those of a pool. -> data; null when the system has no memory left
void* allocate_here(size_t size) {
  if (auto* pool = CpuMemoryPoolScope::current()) return pool->take(size);
  const size_t wanted = size + kHeader;
  void* block = nullptr;
  if (wanted >= kMinKept) {
    block = cache().take(rounded(wanted));
  } else if (posix_memalign(&block, kHeader, wanted) == 0) {
    const size_t uncounted = 0;
    std::memcpy(block, &uncounted, sizeof(uncounted));
  } else {
    return nullptr;
  }
  return block ? static_cast<char*>(block) + kHeader : nullptr;
}

void* allocate(size_t size) {
  void* data = allocate_here(size);
  TORCH_CHECK_WITH(OutOfMemoryError, data, "not enough memory: ", size, " bytes on the CPU");
  return data;
}

void release(void* data) {
  if (!data) return;
  void* block = static_cast<char*>(data) - kHeader;
  const size_t size = BlockCache::block_size(block);
  if (size == 0) {
    std::free(block);
  } else if (size == kPooledBlock) {
    CpuMemoryPool::give_back(data);
  } else {
    cache().give_back(block);
  }
}

class CachingCpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    void* data = size > 0 ? kernels::allocate(size) : nullptr;
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }
};

}  // namespace

void use_caching_cpu_allocator() {
#if !defined(__SANITIZE_ADDRESS__)
  static CachingCpuAllocator allocator;
  static const int is_ready_for_forks =
      pthread_atfork([] { cache().hold(); }, [] { cache().let_go(); }, [] { cache().let_go(); });
  TORCH_CHECK_WITH(OutOfMemoryError, is_ready_for_forks == 0, "not enough memory for a handler");
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
#endif
}

void release_kept_cpu_memory() { cache().release_all(); }

CpuMemory cpu_memory() { return cache().memory(); }

}  // namespace fovea::kernels
