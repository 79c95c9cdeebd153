// Bytes of a test's CPU tensors.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace fovea::support {

// Counts the tensors that are made once it is in force; see count_cpu_memory.
class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    const auto wanted = in_use + static_cast<int64_t>(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, limit == 0 || wanted <= limit, "not enough memory: ", bytes,
                     " bytes beyond those in use (of a test)");
    auto* block = static_cast<size_t*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
    block[0] = bytes;  // in front of the data: oneDNN wants a pointer to it alone
    in_use += static_cast<int64_t>(bytes);
    peak = std::max<int64_t>(peak, in_use);
    return {block + 8, block + 8, &free_data, at::Device(at::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }
  static void free_data(void* data) {
    auto* block = static_cast<size_t*>(data) - 8;
    in_use -= static_cast<int64_t>(block[0]);
    std::free(block);
  }
  static inline std::atomic<int64_t> in_use = 0, peak = 0;
  // Of in_use, beyond which memory has run out; 0: none.
  static inline std::atomic<int64_t> limit = 0;
};

// From here on, for as long as the process lives.
inline void count_cpu_memory() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

}  // namespace fovea::support
