// What the connections of a server share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "fovea/serve/http/access.h"
#include "fovea/serve/http/http_limits.h"
#include "fovea/serve/http_message.h"

namespace fovea::serve {

// Bytes of bodies that are there at one time.
class BodyBudget {
 public:
  explicit BodyBudget(size_t bytes) : left_(static_cast<int64_t>(bytes)) {}
  bool take(int64_t bytes) {
    if (left_.fetch_sub(bytes) >= bytes) return true;
    left_ += bytes;
    return false;
  }
  void give(int64_t bytes) { left_ += bytes; }

 private:
  std::atomic<int64_t> left_;
};

// A request's share of it, which ends with the object.
class HeldBytes {
 public:
  explicit HeldBytes(BodyBudget& budget) : budget_(budget) {}
  ~HeldBytes() { budget_.give(bytes_); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  // Throws StatusError (503): there is not as much left.
  void grow_to(size_t total);

 private:
  BodyBudget& budget_;
  int64_t bytes_ = 0;
};

// The connections that are open, each with what tells it that the server stops.
class OpenConnections {
 public:
  int64_t add(std::function<void()> on_drain);
  void remove(int64_t number);
  int64_t count() const;
  void tell_to_drain();
  // Whether all are gone.
  bool wait_until_none(std::chrono::milliseconds patience);

 private:
  mutable std::mutex mutex_;
  std::condition_variable none_left_;
  std::unordered_map<int64_t, std::function<void()>> entries_;
  int64_t next_ = 0;
};

struct ServerState {
  ServerState(HttpHandler& handler, const HttpLimits& limits, Access access);

  // Of a request: what the client calls it in X-Request-Id where that is short and plain, else a
  // new one.
  std::string id_of(const HttpRequest& request);

  HttpHandler& handler;
  const HttpLimits limits;
  const Access access;
  BodyBudget bodies;
  OpenConnections connections;
  std::atomic<bool> is_draining = false;

 private:
  const std::string id_prefix_;
  std::atomic<uint64_t> next_id_ = 0;
};

}  // namespace fovea::serve
