#include "fovea/elastic/control/key_mirror.h"

#include <algorithm>
#include <utility>

#include "fovea/core/log.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenTries{200};

}  // namespace

KeyMirror::KeyMirror(const EtcdClient& client, KeyRange range, milliseconds silence)
    : client_(client.another(silence)), range_(std::move(range)), silence_(silence) {
  read_anew();
  thread_ = std::thread([this] { run(); });
}

KeyMirror::~KeyMirror() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  client_->interrupt();
  thread_.join();
}

KeyMirror::State KeyMirror::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool KeyMirror::wait(int64_t after, milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return state_.number > after; });
}

milliseconds KeyMirror::silent_for() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - heard_);
}

std::string KeyMirror::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

KeyMirror::State KeyMirror::read(EtcdClient& client, const KeyRange& range) {
  auto result = client.range(range);
  State state{.number = 1, .revision = result.revision};
  for (auto& value : result.values) {
    auto key = value.key;
    state.values.emplace(std::move(key), std::move(value));
  }
  return state;
}

void KeyMirror::read_anew() {
  auto now = read(*client_, range_);
  note_answer();
  const std::lock_guard lock(mutex_);
  state_.revision = now.revision;
  if (state_.number > 0 && now.values == state_.values) return;
  state_.values = std::move(now.values);
  state_.number += 1;
  changed_.notify_all();
}

void KeyMirror::apply(const WatchReply& reply) {
  const std::lock_guard lock(mutex_);
  for (const auto& event : reply.events) {
    if (event.is_delete) {
      state_.values.erase(event.kv.key);
    } else {
      state_.values[event.kv.key] = event.kv;
    }
    state_.revision = std::max(state_.revision, event.kv.mod_revision);
  }
  if (reply.events.empty()) return;
  state_.number += 1;
  changed_.notify_all();
}

void KeyMirror::note_answer() {
  const std::lock_guard lock(mutex_);
  heard_ = Clock::now();
  if (!fault_.empty()) log_info("etcd answers again");
  fault_.clear();
}

void KeyMirror::note_fault(const std::string& fault) {
  const std::lock_guard lock(mutex_);
  if (is_ending_) return;
  if (fault_.empty()) log_warning(fault);
  fault_ = fault;
}

void KeyMirror::pause() const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kBetweenTries, [&] { return is_ending_; });
}

void KeyMirror::watch() {
  int64_t from = 0;
  {
    const std::lock_guard lock(mutex_);
    from = state_.revision + 1;
  }
  client_->watch(range_, from, silence_, [this](const WatchReply& reply) {
    note_answer();
    apply(reply);
    const std::lock_guard lock(mutex_);
    return !is_ending_;
  });
}

void KeyMirror::run() {
  const auto is_ending = [this] {
    const std::lock_guard lock(mutex_);
    return is_ending_;
  };
  bool is_read = true;  // before the thread was started
  while (!is_ending()) {
    try {
      if (!is_read) read_anew();
      is_read = false;
      watch();
    } catch (const EtcdError& error) {
      if (error.kind() == EtcdError::Kind::kCompacted) {
        log_info(error.what());
        continue;
      }
      note_fault(error.what());
      pause();
    } catch (const DataError& error) {
      note_fault(error.what());
      pause();
    }
  }
}

}  // namespace fovea::elastic
