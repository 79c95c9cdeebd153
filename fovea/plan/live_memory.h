// Bytes that tensors of a device hold, counted where they are allocated.
#pragma once

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <memory>

namespace fovea::plan {

// Counts while it lives, tensors made in that time alone; they may outlive it. One for a device at
// a time. On the meta device tensors hold nothing, and count what they would.
class LiveMemory {
 public:
  explicit LiveMemory(c10::DeviceType device);
  ~LiveMemory();
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;

  int64_t bytes() const;  // now
  int64_t peak() const;   // most at a time since the start, or reset_peak()
  int64_t made() const;   // of all tensors made since the start, also those that are gone
  void reset_peak();

  struct Count;

 private:
  c10::DeviceType device_;
  std::shared_ptr<Count> count_;
};

}  // namespace fovea::plan
