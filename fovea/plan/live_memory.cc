#include "fovea/plan/live_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

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

// Blocks by where their data is: who asks for plain memory of the CPU, as Gloo does, gives back
// that address and nothing else.
class BlocksOfCpu {
 public:
  explicit BlocksOfCpu(c10::DeleterFnPtr free_uncounted) : free_uncounted_(free_uncounted) {}

  void add(void* data, std::unique_ptr<Block> block) {
    const std::lock_guard lock(mutex_);
    blocks_[data] = std::move(block);
  }

  void free(void* data) {
    std::unique_ptr<Block> block;
    {
      const std::lock_guard lock(mutex_);
      if (auto found = blocks_.extract(data)) block = std::move(found.mapped());
    }
    block ? free_block(block.release()) : free_uncounted_(data);
  }

 private:
  c10::DeleterFnPtr free_uncounted_;
  std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;
};

// Never destroyed: tensors in static storage are freed after main.
BlocksOfCpu& blocks_of_cpu() {
  static auto* const blocks = new BlocksOfCpu(c10::GetCPUAllocator()->raw_deleter());
  return *blocks;
}

void free_on_cpu(void* data) { blocks_of_cpu().free(data); }

// In front of a device's allocator. Lives for ever, as allocators do: tensors keep a pointer to it.
class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator(c10::Allocator* base, bool is_cpu) : base_(base), is_cpu_(is_cpu) {
    if (is_cpu) blocks_of_cpu();  // while the CPU's allocator is the base
  }

  c10::DataPtr allocate(size_t size) override {
    auto memory = base_->allocate(size);
    const auto count = count_.load();
    if (!count || size == 0) return memory;
    auto* data = memory.get();
    const auto device = memory.device();
    count->add(static_cast<int64_t>(size));
    auto block = std::make_unique<Block>(std::move(memory), static_cast<int64_t>(size), count);
    if (!is_cpu_) return {data, block.release(), &free_block, device};
    blocks_of_cpu().add(data, std::move(block));
    return {data, data, &free_on_cpu, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return is_cpu_ ? &free_on_cpu : nullptr; }
  void copy_data(void* to, const void* from, size_t size) const override {
    base_->copy_data(to, from, size);
  }

  void use(std::shared_ptr<LiveMemory::Count> count) {
    FOVEA_CHECK(!count || !count_.load(), "the memory of this device is counted already");
    count_.store(std::move(count));
  }

 private:
  c10::Allocator* base_;
  bool is_cpu_;
  std::atomic<std::shared_ptr<LiveMemory::Count>> count_;
};

CountingAllocator& allocator_of(c10::DeviceType device) {
  static std::mutex mutex;
  static std::array<CountingAllocator*, c10::COMPILE_TIME_MAX_DEVICE_TYPES> allocators{};
  const std::lock_guard lock(mutex);
  auto*& allocator = allocators.at(static_cast<size_t>(device));
  if (allocator == nullptr) {
    allocator = new CountingAllocator(c10::GetAllocator(device), device == c10::DeviceType::CPU);
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
