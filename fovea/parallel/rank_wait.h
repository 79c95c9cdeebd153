// A wait for other ranks that ends when they cannot come any more.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>

#include "fovea/parallel/watch.h"

namespace fovea::parallel {

// While alive, the beats of the other ranks are read.
class LookAtOthers {
 public:
  explicit LookAtOthers(Watch& watch) : watch_(watch) { watch_.look_at_others(true); }
  ~LookAtOthers() { watch_.look_at_others(false); }
  LookAtOthers(const LookAtOthers&) = delete;
  LookAtOthers& operator=(const LookAtOthers&) = delete;

 private:
  Watch& watch_;
};

// What an exception of libtorch or the network says, in one line.
std::string reason_of(const std::exception& error);
std::string reason_of(const std::exception_ptr& error);

class RankWait {
 public:
  // operation: what is waited for, in messages ("all_reduce of losses"). `watch` outlives it.
  RankWait(std::string operation, std::chrono::milliseconds timeout, Watch& watch);

  // Returns once `is_over` says so; it gets the longest time that it may wait by itself. Throws
  // RankError: another rank failed, is silent for too long, or `timeout` is over.
  void until(const std::function<bool(std::chrono::milliseconds)>& is_over);
  // Throws RankError where there is no use in waiting on, so long after the start.
  void check(std::chrono::milliseconds waited) const;
  // The connection to a rank is gone: that rank, or a third one, may have told why.
  [[noreturn]] void fail_broken(const std::string& reason) const;
  // Throws where a failure of another rank is known already.
  void check_failure() const;

  // "rank 1, step 3, all_reduce of losses"
  std::string where() const;
  const std::string& operation() const { return operation_; }

 private:
  [[noreturn]] void fail_because(const RankFailure& failure) const;
  [[noreturn]] void fail_late() const;

  std::string operation_;
  std::chrono::milliseconds timeout_;
  Watch& watch_;
};

}  // namespace fovea::parallel
