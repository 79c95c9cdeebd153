// Clocks about the parts of a step of `fovea profile`.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "fovea/elastic/profile/pass_meter.h"
#include "fovea/parallel/gradient_sync.h"

namespace fovea::elastic {

// Of the parts of a step. Each worker has one at a time.
class PartClock {
 public:
  explicit PartClock(c10::Device device) : device_(device) {}

  void begin_step(int64_t concurrent);
  // Of this thread.
  void start();
  void stop(double PassTimes::*part);
  // All workers are done, whose backwards nobody has clocked where there are several: they are what
  // is left.
  void end_passes();

  PassTimes times = {};

 private:
  using Clock = std::chrono::steady_clock;

  void wait() const;

  c10::Device device_;
  int64_t concurrent_ = 1;
  std::mutex mutex_;
  Clock::time_point first_{};
  std::map<std::thread::id, Clock::time_point> begun_;
};

// The gradients' sync of the run, with a clock about each backward.
class TimedSync final : public parallel::GradientSync {
 public:
  TimedSync(parallel::GradientSync& sync, PartClock& clock) : sync_(sync), clock_(clock) {}

  void begin_pass(bool is_accompanied) override { sync_.begin_pass(is_accompanied); }
  void end_pass() override { sync_.end_pass(); }
  void before_backward(bool is_last) override {
    sync_.before_backward(is_last);
    clock_.start();
  }
  void after_backward() override {
    clock_.stop(&PassTimes::backward_ms);
    sync_.after_backward();
  }
  void finish() override {
    clock_.end_passes();
    sync_.finish();
  }
  bool meets_in_passes() const override { return sync_.meets_in_passes(); }

 private:
  parallel::GradientSync& sync_;
  PartClock& clock_;
};

}  // namespace fovea::elastic
