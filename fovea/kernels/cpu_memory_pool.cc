#include "fovea/kernels/cpu_memory_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace fovea::kernels {
namespace {

thread_local CpuMemoryPool* current_pool = nullptr;

constexpr size_t kPage = 4096;

}  // namespace

struct CpuMemoryPool::Header {
  size_t kind = kPooledBlock;
  size_t size = 0;                                // of the data
  std::shared_ptr<CpuMemoryPool> pool = nullptr;  // while the block is in use

  void* data() { return reinterpret_cast<char*>(this) + kCpuBlockHeader; }
  static Header* of(void* data) {
    return reinterpret_cast<Header*>(static_cast<char*>(data) - kCpuBlockHeader);
  }
};

std::shared_ptr<CpuMemoryPool> CpuMemoryPool::make() {
  return std::shared_ptr<CpuMemoryPool>(new CpuMemoryPool);
}

CpuMemoryPool::~CpuMemoryPool() {
  for (auto* block : blocks_) {
    block->~Header();
    std::free(block);
  }
}

// The last that came back, whose lines may still be in a cache; it wastes no more than half.
CpuMemoryPool::Header* CpuMemoryPool::take_free(size_t size) {
  for (auto place = free_.rbegin(); place != free_.rend(); ++place) {
    auto* block = *place;
    if (block->size < size || block->size > 2 * size) continue;
    free_.erase(std::next(place).base());
    return block;
  }
  return nullptr;
}

void* CpuMemoryPool::take(size_t size) {
  static_assert(sizeof(Header) <= kCpuBlockHeader);
  const size_t rounded = (size + kCpuBlockHeader + kPage - 1) / kPage * kPage - kCpuBlockHeader;
  const std::lock_guard lock(mutex_);
  auto* block = take_free(rounded);
  if (!block) {
    void* memory = nullptr;
    if (posix_memalign(&memory, kCpuBlockHeader, rounded + kCpuBlockHeader) != 0) return nullptr;
    block = new (memory) Header{.size = rounded};
    blocks_.push_back(block);
  }
  block->pool = shared_from_this();
  return block->data();
}

void CpuMemoryPool::give_back(void* data) {
  auto* block = Header::of(data);
  const auto pool = std::move(block->pool);  // which may be the last that holds it
  const std::lock_guard lock(pool->mutex_);
  pool->free_.push_back(block);
}

int64_t CpuMemoryPool::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto* block : blocks_) sum += static_cast<int64_t>(block->size + kCpuBlockHeader);
  return sum;
}

bool CpuMemoryPool::has(const void* data) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(blocks_.begin(), blocks_.end(), [&](Header* block) {
    const auto* begin = static_cast<const char*>(block->data());
    return begin <= data && data < begin + block->size;
  });
}

CpuMemoryPoolScope::CpuMemoryPoolScope(CpuMemoryPool* pool) : before_(current_pool) {
  current_pool = pool;
}

CpuMemoryPoolScope::~CpuMemoryPoolScope() { current_pool = before_; }

CpuMemoryPool* CpuMemoryPoolScope::current() { return current_pool; }

}  // namespace fovea::kernels
