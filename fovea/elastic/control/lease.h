// A lease of etcd, kept alive by a thread: keys that were written with it go when it ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "fovea/elastic/control/etcd_client.h"

namespace fovea::elastic {

// The least that etcd grants with its own defaults.
inline constexpr int64_t kLeaseSeconds = 2;

// Extended four times in its length. While etcd is away that is tried on, for a lease outlives it:
// only etcd's own word ends it.
class Lease {
 public:
  // is_alive: asked before each extension; while it says no, as of a main thread that hangs, the
  // lease is left to end. Throws EtcdError.
  explicit Lease(const EtcdClient& client, int64_t seconds = kLeaseSeconds,
                 std::function<bool()> is_alive = {});
  // Ends it, where etcd can be told within half its length.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  int64_t id() const { return id_; }
  // etcd has let it end: its keys are gone.
  bool is_lost() const;
  // Since etcd extended it last.
  std::chrono::milliseconds silent_for() const;

 private:
  void run();
  // False: it is lost.
  bool extend();

  std::unique_ptr<EtcdClient> client_;
  std::chrono::milliseconds interval_;
  std::function<bool()> is_alive_;
  int64_t id_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable ending_;
  bool is_ending_ = false;
  bool is_lost_ = false;
  std::chrono::steady_clock::time_point heard_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace fovea::elastic
