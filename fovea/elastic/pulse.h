// Whether the main thread of a worker goes on.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <utility>

namespace fovea::elastic {

// The main thread gives signs of life; another one, which keeps the worker's lease alive, asks.
class Pulse {
 public:
  explicit Pulse(std::chrono::milliseconds patience) : patience_(patience) {}

  void beat() {
    const std::lock_guard lock(mutex_);
    last_ = Clock::now();
  }
  // Whether the main thread waits for somebody else, which may last: asked from the other thread.
  // Empty: it never does.
  void set_waits(std::function<bool()> waits) {
    const std::lock_guard lock(mutex_);
    last_ = Clock::now();
    waits_ = std::move(waits);
  }
  bool is_alive() const {
    const std::lock_guard lock(mutex_);
    return Clock::now() - last_ < patience_ || (waits_ && waits_());
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  Clock::time_point last_ = Clock::now();
  std::function<bool()> waits_ = [] { return true; };
};

}  // namespace fovea::elastic
