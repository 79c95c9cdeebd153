#include "fovea/core/awaited_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace fovea {

void AwaitedWord::sleep_while(uint32_t seen, std::optional<std::chrono::nanoseconds> patience) {
  constexpr int64_t kSecond = 1'000'000'000;
  timespec most{};
  if (patience) {
    most.tv_sec = patience->count() / kSecond;
    most.tv_nsec = patience->count() % kSecond;
  }
  sleepers_.fetch_add(1);  // before the system looks whether the value is still the one seen
  syscall(SYS_futex, &value, FUTEX_WAIT, seen, patience ? &most : nullptr, nullptr, 0);
  sleepers_.fetch_sub(1);
}

void AwaitedWord::wake_all() {
  if (sleepers_.load() == 0) return;
  syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace fovea
