// A time that is either stopped or runs out.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace fovea::serve::rpc {

class TimeLimit {
 public:
  // Calls `run_out`, from a thread of gRPC, unless stop() comes before.
  void start(std::chrono::milliseconds time, std::function<void()> run_out);
  // False: it has run out, or was stopped before.
  bool stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace fovea::serve::rpc
