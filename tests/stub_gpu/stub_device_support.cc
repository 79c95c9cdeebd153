#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "tests/stub_gpu/stub_device.h"
#include "tests/stub_gpu/stub_gpu.h"

namespace fovea::stub_gpu {
namespace {

constexpr c10::DeviceIndex kNumDevices = 2;
thread_local c10::DeviceIndex current = 0;

// Streams do their work at once: there is nothing to wait for.
struct StubGuard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return gpu(std::exchange(current, device.index()));
  }
  c10::Device getDevice() const override { return gpu(current); }
  void setDevice(c10::Device device) const override { current = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*is_urgent*/) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 1);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return getStream(stream.device());
  }
  void record(void** /*event*/, const c10::Stream& /*stream*/, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}
  bool queryEvent(void* /*event*/) const override { return true; }
  void synchronizeEvent(void* /*event*/) const override {}
  void synchronizeStream(const c10::Stream& /*stream*/) const override {}
  void synchronizeDevice(c10::DeviceIndex /*device*/) const override {}
  c10::DeviceIndex deviceCount() const noexcept override { return kNumDevices; }
};
C10_REGISTER_GUARD_IMPL(CUDA, StubGuard);

std::mutex memory_mutex;
Memory all;
std::atomic<int64_t> limit{0};

constexpr size_t kHeader = 64;  // in front of the data: how much there is

class StubMemory final : public c10::DeviceAllocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    const std::lock_guard lock(memory_mutex);
    const auto wanted = all.in_use + static_cast<int64_t>(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, limit == 0 || wanted <= limit,
                     "CUDA out of memory. Tried to allocate ", bytes, " bytes. GPU ",
                     static_cast<int>(current), " has a total capacity of ", limit.load(),
                     " bytes.");
    all.asked.push_back(current);
    all.in_use = wanted;
    all.peak = std::max(all.peak, wanted);
    if (bytes == 0) return {nullptr, nullptr, &free_block, gpu(current)};
    auto* block = static_cast<char*>(std::aligned_alloc(64, (bytes + 2 * kHeader - 1) / 64 * 64));
    std::memcpy(block, &bytes, sizeof(bytes));
    return {block + kHeader, block, &free_block, gpu(current)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    const std::lock_guard lock(memory_mutex);
    all.emptied += 1;
  }
  void recordStream(const c10::DataPtr& /*data*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    return {};
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex /*device*/) override {
    return {size_t{1} << 30, size_t{1} << 30};
  }

 private:
  static void free_block(void* block) {
    if (block == nullptr) return;
    size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof(bytes));
    {
      const std::lock_guard lock(memory_mutex);
      all.in_use -= static_cast<int64_t>(bytes);
    }
    std::free(block);
  }
};

StubMemory stub_memory;
REGISTER_ALLOCATOR(c10::kCUDA, &stub_memory);

// Bytes of each pinned block.
std::map<const char*, size_t>& pinned() {
  static auto* const blocks = new std::map<const char*, size_t>;
  return *blocks;
}

class PinnedMemory final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    auto* block = static_cast<char*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64));
    const std::lock_guard lock(memory_mutex);
    pinned()[block] = bytes;
    return {block, block, &free_block, at::Device(at::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void free_block(void* block) {
    {
      const std::lock_guard lock(memory_mutex);
      pinned().erase(static_cast<char*>(block));
    }
    std::free(block);
  }
};

}  // namespace

c10::DeviceIndex current_device() { return current; }

DeviceScope::DeviceScope(c10::Device device) : before_(std::exchange(current, device.index())) {}
DeviceScope::~DeviceScope() { current = before_; }

c10::Allocator* device_allocator() { return &stub_memory; }

Memory memory() {
  const std::lock_guard lock(memory_mutex);
  return all;
}

void forget_asked() {
  const std::lock_guard lock(memory_mutex);
  all.asked.clear();
  all.peak = all.in_use;
}

void limit_memory(int64_t bytes) { limit = bytes; }

// Named at namespace scope: libtorch finds it by that name.
struct StubHooks final : public at::CUDAHooksInterface {
  explicit StubHooks(at::CUDAHooksArgs /*arguments*/) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kNumDevices; }
  int getNumGPUs() const override { return kNumDevices; }
  c10::DeviceIndex current_device() const override { return current; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedMemory allocator;
    return &allocator;
  }
  bool isPinnedPtr(const void* data) const override {
    const auto* byte = static_cast<const char*>(data);
    const std::lock_guard lock(memory_mutex);
    const auto after = pinned().upper_bound(byte);
    if (after == pinned().begin()) return false;
    const auto& [block, bytes] = *std::prev(after);
    return byte < block + bytes;
  }
};

}  // namespace fovea::stub_gpu

namespace at {
using fovea::stub_gpu::StubHooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, StubHooks)
}  // namespace at
