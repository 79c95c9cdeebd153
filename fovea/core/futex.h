// Sleeping until another thread has changed a word, in this process or in one that shares its
// memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace fovea {

// Sleeps while the word is `value`, until somebody wakes it, or `patience` is over. May also return
// earlier. std::atomic::wait gives its turn away some times before it sleeps (sched_yield), and
// beside another program a turn is milliseconds; and it has no patience that ends.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t value,
                 std::optional<std::chrono::nanoseconds> patience = std::nullopt);

// Wakes all that sleep on it.
void wake_all(const std::atomic<uint32_t>& word);

}  // namespace fovea
