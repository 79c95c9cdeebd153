// A worker's key in a run, for as long as the worker lives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/control/lease.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

// Throws ConfigError that says what differs where the run of this name trains something else.
void check_same_run(EtcdClient& client, const RunKeys& keys, const Identity& here);

struct MembershipOptions {
  int64_t seconds = kLeaseSeconds;
  std::function<bool()> is_alive = {};  // see Lease
};

// Registers a worker, and keeps its lease alive. A lease that etcd let end (a process that was
// stopped for long, a network that was cut) is said in the log, and the worker registers anew:
// under another registration, so that no plan before takes it for a member. An etcd that is away
// for some seconds ends none. Safe from several threads.
class Membership {
 public:
  // Throws ConfigError: another run, or a name that somebody else has for longer than a lease
  // lasts; EtcdError.
  Membership(const EtcdClient& client, RunKeys keys, std::string name, WorkerRecord record,
             MembershipOptions options = {});
  // Leaves: the key goes at once, where etcd can be reached.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  const std::string& name() const { return name_; }
  // The one at the moment; `created` 0: none, the lease was lost and etcd is away.
  Registration registration() const;
  // Writes what the worker is now; while etcd is away that waits.
  void update(const WorkerRecord& record);
  WorkerRecord record() const;
  // As one that has just come: who was excluded and is well again.
  void register_anew();
  // Since etcd answered last: what elastic.patience is held against.
  std::chrono::milliseconds silent_for() const;

 private:
  void run();
  void do_what_waits();
  // False: the name is taken.
  bool try_register();
  void register_or_refuse();
  bool write();

  std::unique_ptr<EtcdClient> client_;
  RunKeys keys_;
  std::string name_;
  MembershipOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  WorkerRecord record_;
  bool is_written_ = false;
  bool is_to_register_ = false;
  bool is_ending_ = false;
  int64_t created_ = 0;
  std::unique_ptr<Lease> lease_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace fovea::elastic
