#include "fovea/elastic/control/election.h"

#include <utility>

namespace fovea::elastic {

Election::Election(EtcdClient& client, RunKeys keys, LeaderRecord self, int64_t seconds)
    : client_(client), keys_(std::move(keys)), self_(std::move(self)), seconds_(seconds) {}

bool Election::stand() {
  if (is_leader()) return true;
  resign();
  // A look first: who waits for its turn takes no leases meanwhile.
  if (client_.get(keys_.leader())) return false;
  lease_ = std::make_unique<Lease>(client_, seconds_);
  const auto result =
      client_.txn({.compares = {is_absent(keys_.leader())},
                   .success = {put_key(keys_.leader(), to_json(self_), lease_->id())}});
  if (!result.is_success) {
    lease_.reset();
    return false;
  }
  created_ = result.revision;
  return true;
}

bool Election::is_leader() const { return created_ != 0 && !lease_->is_lost(); }

EtcdCompare Election::held_key() const {
  FOVEA_CHECK(created_ != 0, "no leader writes a plan");
  return {
      .key = keys_.leader(), .target = EtcdCompare::Target::kCreateRevision, .number = created_};
}

void Election::resign() {
  created_ = 0;
  lease_.reset();
}

}  // namespace fovea::elastic
