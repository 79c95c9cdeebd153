// Who schedules: the one that holds the key `leader` of a run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/control/lease.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

// Used by one thread. The key is held with a lease: it goes two seconds after its holder was
// killed, and who stands next is elected.
class Election {
 public:
  Election(EtcdClient& client, RunKeys keys, LeaderRecord self, int64_t seconds = kLeaseSeconds);

  // Takes the key where nobody has it. True: this one holds it. Throws EtcdError.
  bool stand();
  // What it knows: a transaction that has to hold compares with held_key().
  bool is_leader() const;
  EtcdCompare held_key() const;
  // Gives it back, so that the next one need not wait.
  void resign();

 private:
  EtcdClient& client_;
  RunKeys keys_;
  LeaderRecord self_;
  int64_t seconds_;
  std::unique_ptr<Lease> lease_;
  int64_t created_ = 0;  // revision of the key that is held; 0: none
};

}  // namespace fovea::elastic
