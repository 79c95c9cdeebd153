#include "fovea/kernels/cpu/helper_place.h"

#include <sched.h>
#include <unistd.h>

#include <ctime>
#include <utility>

namespace fovea::kernels::cpu {

HelperPlace::HelperPlace() : owner_(gettid()) {}

void HelperPlace::begin() {
  helper_ = gettid();
  pthread_getcpuclockid(pthread_self(), &clock_);
}

void HelperPlace::arrive(int cpu) {
  is_at_work_ = true;
  if (cpu >= 0 && cpu == sched_getcpu()) keep_off(cpu);
}

void HelperPlace::leave() { is_at_work_ = false; }

void HelperPlace::look() {
  seen_.reset();
  if (is_at_work_) seen_ = processor_time();
}

bool HelperPlace::fetch_if_stuck() {
  constexpr int64_t kOn = 2000;  // ns that it has at least if it runs
  if (!seen_ || !is_at_work_ || processor_time() - *seen_ >= kOn) return false;
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  const bool is_here = sched_setaffinity(helper_, sizeof here, &here) == 0;
  is_fetched_ |= is_here;
  return is_here;
}

void HelperPlace::let_go() {
  if (std::exchange(is_fetched_, false)) keep_off(sched_getcpu());
}

// To the processors of the thread, but not to the one that it is on, if there are others.
void HelperPlace::keep_off(int cpu) {
  cpu_set_t cpus;
  if (sched_getaffinity(owner_, sizeof cpus, &cpus) != 0) return;
  if (CPU_COUNT(&cpus) > 1) CPU_CLR(cpu, &cpus);
  sched_setaffinity(helper_, sizeof cpus, &cpus);
}

int64_t HelperPlace::processor_time() const {
  timespec time{};
  clock_gettime(clock_, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace fovea::kernels::cpu
