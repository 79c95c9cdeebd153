// A word whose changes others wait for asleep, in this process or in one that shares its memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace fovea {

// Zeros are its beginning. std::atomic::wait gives its turn away some times before it sleeps
// (sched_yield), and beside another program a turn is milliseconds; and its patience has no end.
class AwaitedWord {
 public:
  // Whoever changes it wakes others then.
  std::atomic<uint32_t> value = 0;

  // Sleeps while the value is `seen`, until somebody wakes it, or `patience` is over. May also
  // return earlier.
  void sleep_while(uint32_t seen, std::optional<std::chrono::nanoseconds> patience = std::nullopt);

  // Wakes all that sleep; of little cost where nobody does.
  void wake_all();

 private:
  std::atomic<uint32_t> sleepers_ = 0;
};

}  // namespace fovea
