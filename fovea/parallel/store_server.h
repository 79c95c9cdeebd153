// The place where ranks meet: texts by name, for those who have the secret of the run.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fovea/parallel/sockets.h"
#include "fovea/parallel/store_wire.h"

namespace fovea::parallel {

// A thread that serves a store, see Note [The store], until it is destroyed. What others send can
// neither end nor stall it: who has not proved to have the secret is cut off after some seconds and
// has some hundred bytes; who sends what is no request, or more than the store may hold, is cut off
// at once.
class StoreServer {
 public:
  // secret: empty: whoever comes is let in. max_bytes: of all values; and of all that is on its
  // way.
  StoreServer(std::vector<Socket> listeners, std::string secret,
              size_t max_bytes = size_t{256} << 20);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int64_t port() const { return listeners_.front().port(); }
  std::optional<std::string> find(const std::string& key) const;

 private:
  struct Visitor;

  void run();
  void accept_from(const Socket& listener);
  void drop_late_strangers();
  // False: it is to be cut off.
  bool serve(Visitor& visitor, short events);
  bool read_from(Visitor& visitor) const;
  bool greet(Visitor& visitor) const;
  bool write_to(Visitor& visitor) const;
  std::string answer(const StoreRequest& request);
  void put(const std::string& key, const std::string& value);

  std::vector<Socket> listeners_;
  std::string secret_;
  size_t max_bytes_;
  Socket wake_;

  std::vector<Visitor> visitors_;  // oldest first
  size_t num_pending_ = 0;         // bytes that came and are no whole request yet, or wait to go
  mutable std::mutex mutex_;
  std::map<std::string, std::string> values_;
  size_t num_bytes_ = 0;  // of values_
  std::thread thread_;
};

}  // namespace fovea::parallel
