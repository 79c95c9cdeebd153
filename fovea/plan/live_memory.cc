#include "fovea/plan/live_memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "fovea/core/error.h"

namespace fovea::plan {

struct LiveMemory::Count {
  std::mutex mutex;  // tensors come and go in the threads of backward, too
  int64_t bytes = 0, peak = 0, made = 0;

  void add(int64_t size) {
    const std::lock_guard lock(mutex);
    bytes += size;
    peak = std::max(peak, bytes);
    made += std::max<int64_t>(0, size);
  }
};

namespace {

constexpr uint8_t kPriority = 255;  // over every other allocator

// A tensor's memory, as the device's own allocator gave it.
struct Block {
  c10::DataPtr memory;
  int64_t size = 0;
  std::shared_ptr<LiveMemory::Count> count;
};

void free_block(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  block->count->add(-block->size);
}

// In front of a device's allocator. Lives for ever, as allocators do: tensors keep a pointer to it.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(size_t size) override {
    auto memory = base_->allocate(size);
    const auto count = count_.load();
    if (!count) return memory;
    auto* data = memory.get();
    const auto device = memory.device();
    count->add(static_cast<int64_t>(size));
    auto* block = new Block{std::move(memory), static_cast<int64_t>(size), count};
    return {data, block, &free_block, device};
  }
  void copy_data(void* to, const void* from, size_t size) const override {
    base_->copy_data(to, from, size);
  }

  void use(std::shared_ptr<LiveMemory::Count> count) {
    FOVEA_CHECK(!count || !count_.load(), "the memory of this device is counted already");
    count_.store(std::move(count));
  }

 private:
  c10::Allocator* base_;
  std::atomic<std::shared_ptr<LiveMemory::Count>> count_;
};

CountingAllocator& allocator_of(c10::DeviceType device) {
  static std::mutex mutex;
  static std::array<CountingAllocator*, c10::COMPILE_TIME_MAX_DEVICE_TYPES> allocators{};
  const std::lock_guard lock(mutex);
  auto*& allocator = allocators.at(static_cast<size_t>(device));
  if (allocator == nullptr) {
    allocator = new CountingAllocator(c10::GetAllocator(device));
    c10::SetAllocator(device, allocator, kPriority);
  }
  return *allocator;
}

}  // namespace

LiveMemory::LiveMemory(c10::DeviceType device)
    : device_(device), count_(std::make_shared<Count>()) {
  allocator_of(device).use(count_);
}

LiveMemory::~LiveMemory() { allocator_of(device_).use(nullptr); }

int64_t LiveMemory::bytes() const {
  const std::lock_guard lock(count_->mutex);
  return count_->bytes;
}

int64_t LiveMemory::peak() const {
  const std::lock_guard lock(count_->mutex);
  return count_->peak;
}

int64_t LiveMemory::made() const {
  const std::lock_guard lock(count_->mutex);
  return count_->made;
}

void LiveMemory::reset_peak() {
  const std::lock_guard lock(count_->mutex);
  count_->peak = count_->bytes;
}

}  // namespace fovea::plan
