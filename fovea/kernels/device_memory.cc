#include "fovea/kernels/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <map>
#include <mutex>

#include "fovea/core/memory.h"
#include "fovea/kernels/cpu_allocator.h"

namespace fovea::kernels {
namespace {

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

// Null: there is none, or it has not begun.
c10::DeviceAllocator* allocator_of(c10::Device gpu) {
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(gpu.type()));
  return allocator && allocator->initialized() ? allocator : nullptr;
}

}  // namespace

int64_t allocated_bytes(c10::Device gpu) {
  auto* allocator = allocator_of(gpu);
  return allocator ? allocator->getDeviceStats(gpu.index()).allocated_bytes[kAll].current : 0;
}

int64_t memory_for_us(c10::Device gpu) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, int64_t> known;
  auto* allocator = allocator_of(gpu);
  if (!allocator) return 0;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace(gpu.index());
  if (is_new) {
    const auto free = static_cast<int64_t>(allocator->getMemoryInfo(gpu.index()).first);
    place->second = free + allocator->getDeviceStats(gpu.index()).reserved_bytes[kAll].current;
  }
  return place->second;
}

int64_t peak_memory_bytes(c10::Device device) {
  if (device.is_cpu()) return fovea::peak_memory_bytes();
  auto* allocator = allocator_of(device);
  return allocator ? allocator->getDeviceStats(device.index()).allocated_bytes[kAll].peak : 0;
}

void reset_peak_memory(c10::Device device) {
  if (device.is_cpu()) return fovea::reset_peak_memory();
  if (auto* allocator = allocator_of(device)) allocator->resetPeakStats(device.index());
}

void release_kept_memory(c10::Device device) {
  if (device.is_cpu()) {
    release_kept_cpu_memory();
  } else {
    at::getDeviceAllocator(device.type())->emptyCache();
  }
}

}  // namespace fovea::kernels
