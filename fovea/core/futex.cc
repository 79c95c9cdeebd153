#include "fovea/core/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace fovea {

void sleep_while(const std::atomic<uint32_t>& word, uint32_t value,
                 std::optional<std::chrono::nanoseconds> patience) {
  constexpr int64_t kSecond = 1'000'000'000;
  timespec most{};
  if (patience) {
    most.tv_sec = patience->count() / kSecond;
    most.tv_nsec = patience->count() % kSecond;
  }
  syscall(SYS_futex, &word, FUTEX_WAIT, value, patience ? &most : nullptr, nullptr, 0);
}

void wake_all(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace fovea
