// Profiles of several hosts brought together through etcd.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/solve/cluster.h"
#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic {

struct SyncedProfiles {
  ProfileSet profiles;  // of all hosts so far
  // Kinds of devices that etcd has now and had not before, or an older measurement of; and those
  // that this host has now.
  std::vector<std::string> sent = {}, received = {};
};

// Puts what is measured here under /fovea/.profiles/NAME/ and takes what others have put there: of
// one kind of device, and of collectives within a node or between nodes, the newest measurement.
// own: may have no devices. Throws ConfigError where profiles there are of another model or dtype
// than own ones, or cut gradients into other buckets; DataError where what is there is damaged;
// EtcdError.
SyncedProfiles sync_profiles(EtcdClient& client, const std::string& name, const ProfileSet& own);

// Puts two measurements of one network together: of each place those of the newer one that has any.
CommunicationProfile joined_communication(const CommunicationProfile& a,
                                          const CommunicationProfile& b);

// In sentences: what a prediction for the cluster would lack; without one, for several nodes.
std::vector<std::string> missing_profiles(const ProfileSet& profiles,
                                          const std::optional<Cluster>& cluster);

}  // namespace fovea::elastic
