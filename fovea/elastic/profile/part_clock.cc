#include "fovea/elastic/profile/part_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "fovea/kernels/device.h"

namespace fovea::elastic {
namespace {

double milliseconds_between(std::chrono::steady_clock::time_point from,
                            std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

void PartClock::begin_step(int64_t concurrent) {
  times = {};
  concurrent_ = concurrent;
  begun_.clear();
}

void PartClock::start() {
  wait();
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (begun_.empty()) first_ = now;
  begun_[std::this_thread::get_id()] = now;
}

void PartClock::stop(double PassTimes::*part) {
  wait();
  const std::lock_guard lock(mutex_);
  times.*part += milliseconds_between(begun_.at(std::this_thread::get_id()), Clock::now());
}

void PartClock::end_passes() {
  if (concurrent_ == 1) return;
  kernels::synchronize(device_);
  const double passes_ms = milliseconds_between(first_, Clock::now());
  times.data_ms /= static_cast<double>(concurrent_);
  times.forward_ms /= static_cast<double>(concurrent_);
  times.backward_ms = std::max(0.0, passes_ms - times.data_ms - times.forward_ms);
}

// For the device; of several workers each for its stream.
void PartClock::wait() const {
  if (concurrent_ == 1 || device_.is_cpu()) return kernels::synchronize(device_);
  c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
}

}  // namespace fovea::elastic
