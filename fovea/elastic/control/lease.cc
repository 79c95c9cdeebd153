#include "fovea/elastic/control/lease.h"

#include <utility>

#include "fovea/core/error.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

}  // namespace

Lease::Lease(const EtcdClient& client, int64_t seconds, std::function<bool()> is_alive)
    : client_(client.another(milliseconds(500 * seconds))),
      interval_(250 * seconds),
      is_alive_(std::move(is_alive)) {
  id_ = client_->grant(seconds).id;
  heard_ = Clock::now();
  thread_ = std::thread([this] { run(); });
}

Lease::~Lease() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ending_.notify_all();
  thread_.join();
  try {
    if (!is_lost_) client_->revoke(id_);
  } catch (const std::exception&) {
    // It ends by itself.
  }
}

bool Lease::is_lost() const {
  const std::lock_guard lock(mutex_);
  return is_lost_;
}

milliseconds Lease::silent_for() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - heard_);
}

bool Lease::extend() {
  try {
    const bool is_there = client_->keep_alive(id_) > 0;
    const std::lock_guard lock(mutex_);
    heard_ = Clock::now();
    is_lost_ = !is_there;
    return is_there;
  } catch (const Error&) {
    return true;  // not heard: who asks sees for how long
  }
}

void Lease::run() {
  for (;;) {
    if ((!is_alive_ || is_alive_()) && !extend()) return;
    std::unique_lock lock(mutex_);
    if (ending_.wait_for(lock, interval_, [this] { return is_ending_; })) return;
  }
}

}  // namespace fovea::elastic
