#include "fovea/serve/grpc_module/time_limit.h"

#include <grpcpp/alarm.h>

#include <atomic>
#include <utility>

namespace fovea::serve::rpc {

struct TimeLimit::State {
  grpc::Alarm alarm;
  std::atomic<bool> is_over = false;
};

// An alarm keeps its function, and the function what it holds: so it lets go when it is called,
// which a cancelled alarm does too.
void TimeLimit::start(std::chrono::milliseconds time, std::function<void()> run_out) {
  state_ = std::make_shared<State>();
  state_->alarm.Set(std::chrono::system_clock::now() + time,
                    [held = state_, then = std::move(run_out)](bool is_due) mutable {
                      const auto state = std::move(held);
                      const auto late = std::move(then);
                      if (is_due && !state->is_over.exchange(true)) late();
                    });
}

bool TimeLimit::stop() {
  const bool was_running = !state_->is_over.exchange(true);
  state_->alarm.Cancel();
  return was_running;
}

}  // namespace fovea::serve::rpc
