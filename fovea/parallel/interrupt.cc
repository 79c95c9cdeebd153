#include "fovea/parallel/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::parallel {

struct Interrupt::Hook::State {
  std::mutex mutex;  // held while it runs
  std::function<void()> call;

  void run() {
    const std::lock_guard lock(mutex);
    if (call) std::exchange(call, {})();
  }
};

Interrupt::Hook::~Hook() {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  state_->call = {};
}

Interrupt::Interrupt() : file_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  FOVEA_CHECK(file_ >= 0, "no file to wait for events with: {}", std::strerror(errno));
}

Interrupt::~Interrupt() { close(file_); }

void Interrupt::fire(const std::string& why) {
  std::vector<std::shared_ptr<Hook::State>> hooks;
  {
    const std::lock_guard lock(mutex_);
    if (has_fired_) return;
    why_ = why;
    has_fired_ = true;
    for (const auto& hook : hooks_) {
      if (auto state = hook.lock()) hooks.push_back(std::move(state));
    }
    hooks_.clear();
  }
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(file_, &one, sizeof one);
  for (const auto& hook : hooks) hook->run();
}

std::string Interrupt::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

bool Interrupt::wait(std::chrono::milliseconds patience) const {
  pollfd waiting{.fd = file_, .events = POLLIN, .revents = 0};
  poll(&waiting, 1, static_cast<int>(patience.count()));
  return has_fired_;
}

Interrupt::Hook Interrupt::on_fire(std::function<void()> call) {
  Hook hook;
  hook.state_ = std::make_shared<Hook::State>();
  hook.state_->call = std::move(call);
  {
    const std::lock_guard lock(mutex_);
    if (!has_fired_) {
      std::erase_if(hooks_, [](const auto& other) { return other.expired(); });
      hooks_.push_back(hook.state_);
      return hook;
    }
  }
  hook.state_->run();
  return hook;
}

}  // namespace fovea::parallel
