// Collectives that a device has still to do while the host goes on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "fovea/core/trace.h"
#include "fovea/parallel/rank_wait.h"
#include "fovea/parallel/watch.h"

namespace fovea::parallel {

// Note [Waits on a device]
// A wait for a collective between GPUs is one of the stream: the host has gone on, and may be
// steps ahead. Whether the others come is looked at by a thread beside it. Where they do not, it
// tells the back end to give up, which ends what the stream waits for; what was computed from it
// is void, and the host is told in its next collective or World::check(). A host that hears nothing
// of that, as it is stuck elsewhere, is ended by the watch.
class DeviceWork {
 public:
  // Of one group. give_up: makes the device leave what it waits for. `watch` outlives it.
  DeviceWork(Watch& watch, std::function<void()> give_up,
             std::chrono::milliseconds patience = std::chrono::milliseconds(6000));
  ~DeviceWork();
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  // From the time on when a stream waits for `work`. span: ends when the work is done.
  void follow(c10::intrusive_ptr<c10d::Work> work, RankWait wait, std::optional<trace::Span> span);

 private:
  using Clock = std::chrono::steady_clock;
  struct Followed {
    c10::intrusive_ptr<c10d::Work> work;
    RankWait wait;
    std::optional<trace::Span> span;
  };

  void run();
  void let_go_of_done();
  // -> why it will not be done; empty: it may be.
  std::string look_at_oldest(std::unique_lock<std::mutex>& lock);
  void end_unless_over(std::unique_lock<std::mutex>& lock, const std::string& why);

  Watch& watch_;
  std::function<void()> give_up_;
  std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Followed> followed_;        // in the order in which the device does them
  Clock::time_point oldest_since_;      // when it came to be the oldest: the host may be far ahead
  std::unique_ptr<LookAtOthers> look_;  // while the oldest one takes long
  bool is_stopping_ = false;
  std::thread thread_;  // started with the first work
};

}  // namespace fovea::parallel
