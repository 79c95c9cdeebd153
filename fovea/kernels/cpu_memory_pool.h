// Memory of a pass that is done again and again: kept when its tensors go, and never anybody
// else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace fovea::kernels {

// While a CpuMemoryPoolScope is alive, the CPU tensors of its thread lie in the pool, each where
// an earlier one has gone, if there is such a place. A pool lives as long as any of its tensors.
// Thread-safe.
class CpuMemoryPool : public std::enable_shared_from_this<CpuMemoryPool> {
 public:
  static std::shared_ptr<CpuMemoryPool> make();
  ~CpuMemoryPool();
  CpuMemoryPool(const CpuMemoryPool&) = delete;
  CpuMemoryPool& operator=(const CpuMemoryPool&) = delete;

  // For the allocator: data of `size` bytes, aligned to 64, behind a header of kCpuBlockHeader
  // bytes whose first word is kPooledBlock; null when the system has no memory left.
  void* take(size_t size);
  static void give_back(void* data);

  // Of all its blocks.
  int64_t bytes() const;
  bool has(const void* data) const;

 private:
  CpuMemoryPool() = default;
  struct Header;
  Header* take_free(size_t size);

  mutable std::mutex mutex_;
  std::vector<Header*> blocks_, free_;  // of free_, the last that came back at its end
};

inline constexpr size_t kCpuBlockHeader = 64;  // before the data of each block
// Of the blocks of the caching allocator the first word is their size, a multiple of 64, or 0.
inline constexpr size_t kPooledBlock = 1;

class CpuMemoryPoolScope {
 public:
  // null: of no pool.
  explicit CpuMemoryPoolScope(CpuMemoryPool* pool);
  ~CpuMemoryPoolScope();
  CpuMemoryPoolScope(const CpuMemoryPoolScope&) = delete;
  CpuMemoryPoolScope& operator=(const CpuMemoryPoolScope&) = delete;

  // Of this thread, or null.
  static CpuMemoryPool* current();

 private:
  CpuMemoryPool* before_;
};

}  // namespace fovea::kernels
