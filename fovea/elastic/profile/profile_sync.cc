#include "fovea/elastic/profile/profile_sync.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {
namespace {

constexpr int kTries = 20;  // others put theirs in between
constexpr size_t kShownModel = 200;

// What etcd has of a set, and at which revision of each key.
struct Shared {
  std::vector<DeviceProfile> devices;
  std::optional<BucketProfile> buckets;
  CommunicationProfile communication;
  std::map<std::string, int64_t> revisions;
};

class Set {
 public:
  Set(EtcdClient& client, const std::string& name)
      : client_(client), prefix_("/fovea/.profiles/" + name + "/") {}

  std::string device_key(const std::string& fingerprint) const {
    return prefix_ + "devices/" + profile_file_name(fingerprint);
  }
  std::string buckets_key() const { return prefix_ + "buckets.json"; }
  std::string communication_key() const { return prefix_ + "communication.json"; }
  const std::string& prefix() const { return prefix_; }

  Shared read() const {
    Shared shared;
    for (const auto& value : client_.range(with_prefix(prefix_)).values) {
      const auto source = fmt::format("etcd at {}: {}", client_.place().name(), value.key);
      if (value.key.starts_with(prefix_ + "devices/")) {
        shared.devices.push_back(parse_device_profile(value.value, source));
      } else if (value.key == buckets_key()) {
        shared.buckets = parse_bucket_profile(value.value, source);
      } else if (value.key == communication_key()) {
        shared.communication = parse_communication_profile(value.value, source);
      } else {
        continue;  // of a newer version
      }
      shared.revisions[value.key] = value.mod_revision;
    }
    return shared;
  }

  // False: somebody has written in between. The buckets are part of each transaction, so that two
  // hosts cannot begin a set with two models.
  bool write(const Shared& before, const std::map<std::string, std::string>& changes) const {
    EtcdTxn txn;
    auto compared = changes;
    compared.try_emplace(buckets_key());
    for (const auto& [key, text] : compared) {
      const auto found = before.revisions.find(key);
      txn.compares.push_back(found == before.revisions.end() ? is_absent(key)
                                                             : is_at_revision(key, found->second));
    }
    for (const auto& [key, text] : changes) txn.success.push_back(put_key(key, text));
    return client_.txn(txn).is_success;
  }

 private:
  EtcdClient& client_;
  std::string prefix_;
};

std::string model_text(const DeviceProfile& device) {
  return fmt::format("'{}' in {}", printable_start(device.model, kShownModel),
                     printable_start(device.dtype));
}

void check_alike(const Set& set, const Shared& shared, const ProfileSet& own) {
  if (own.devices.empty()) return;
  const auto& here = own.devices.front();
  const auto advice = fmt::format(
      "sync into another set (--name), or remove this one: etcdctl del --prefix {}", set.prefix());
  for (const auto& there : shared.devices) {
    if (there.model == here.model && there.dtype == here.dtype) continue;
    const auto* same = own.find("", there.fingerprint);
    fail<ConfigError>("{}: profile of '{}' is of {} in etcd, {} is of {} here; {}", own.source,
                      printable_start(there.fingerprint), model_text(there),
                      same ? "and" : "and '" + printable_start(here.fingerprint) + "'",
                      model_text(here), advice);
  }
  if (!shared.buckets) return;
  if (shared.buckets->model != own.model) {
    fail<ConfigError>("{}: buckets are of '{}' in etcd, and of '{}' here; {}", own.source,
                      printable_start(shared.buckets->model, kShownModel),
                      printable_start(own.model, kShownModel), advice);
  }
  if (shared.buckets->megabytes != own.bucket_megabytes) {
    fail<ConfigError>("{}: gradients travel in {} buckets in etcd, and in {} others here; {}",
                      own.source, shared.buckets->megabytes.size(), own.bucket_megabytes.size(),
                      advice);
  }
}

struct Joined {
  SyncedProfiles result;
  std::map<std::string, std::string> changes;  // of etcd's keys
};

void join_devices(const Set& set, const Shared& shared, const ProfileSet& own, Joined& joined) {
  auto& result = joined.result;
  std::map<std::string, DeviceProfile> newest;
  for (const auto& device : shared.devices) newest[device.fingerprint] = device;
  for (const auto& device : own.devices) {
    const auto [there, is_new] = newest.try_emplace(device.fingerprint, device);
    if (!is_new && there->second.measured >= device.measured) continue;
    there->second = device;
    result.sent.push_back(device.fingerprint);
    joined.changes[set.device_key(device.fingerprint)] = profile_text(device);
  }
  for (const auto& [fingerprint, device] : newest) {
    const auto* before = own.find("", fingerprint);
    if (!before || before->measured < device.measured) result.received.push_back(fingerprint);
    result.profiles.devices.push_back(device);
  }
}

Joined joined_with(const Set& set, const Shared& shared, const ProfileSet& own) {
  Joined joined;
  auto& profiles = joined.result.profiles;
  profiles.source = own.source;
  join_devices(set, shared, own, joined);
  const bool has_own = !own.devices.empty();
  const BucketProfile buckets =
      shared.buckets.value_or(BucketProfile{.model = own.model, .megabytes = own.bucket_megabytes});
  profiles.model = buckets.model;
  profiles.bucket_megabytes = buckets.megabytes;
  if (has_own && !shared.buckets) joined.changes[set.buckets_key()] = profile_text(buckets);
  const CommunicationProfile ours{.points = own.communication,
                                  .measured = own.communication_measured};
  const auto communication = joined_communication(shared.communication, ours);
  profiles.communication = communication.points;
  profiles.communication_measured = communication.measured;
  if (profile_text(communication) != profile_text(shared.communication)) {
    joined.changes[set.communication_key()] = profile_text(communication);
  }
  return joined;
}

bool has_point(const std::vector<CommunicationPoint>& points, const std::string& place) {
  return std::any_of(points.begin(), points.end(),
                     [&](const auto& point) { return point.place == place; });
}

}  // namespace

CommunicationProfile joined_communication(const CommunicationProfile& a,
                                          const CommunicationProfile& b) {
  const auto& newer = b.measured > a.measured ? b : a;
  const auto& older = b.measured > a.measured ? a : b;
  CommunicationProfile joined{.points = {}, .measured = newer.measured};
  for (const auto* place : {"intra", "inter"}) {
    const auto& from = has_point(newer.points, place) ? newer : older;
    for (const auto& point : from.points) {
      if (point.place == place) joined.points.push_back(point);
    }
  }
  return joined;
}

SyncedProfiles sync_profiles(EtcdClient& client, const std::string& name, const ProfileSet& own) {
  check_name("--name", name);
  const Set set(client, name);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto shared = set.read();
    check_alike(set, shared, own);
    auto joined = joined_with(set, shared, own);
    if (joined.changes.empty() || set.write(shared, joined.changes)) return joined.result;
  }
  fail<ConfigError>("{}: others have written there {} times in a row; try again", set.prefix(),
                    kTries);
}

std::vector<std::string> missing_profiles(const ProfileSet& profiles,
                                          const std::optional<Cluster>& cluster) {
  std::vector<std::string> missing;
  std::map<std::string, std::vector<std::string>> hosts;  // by kinds without a profile
  bool has_pairs = !cluster, has_nodes = !cluster;
  if (cluster) {
    has_nodes = cluster->hosts.size() > 1;
    for (const auto& host : cluster->hosts) {
      has_pairs = has_pairs || host.config.number > 1;
      if (profiles.find(host.name, host.config.type) == nullptr) {
        hosts[host.config.type].push_back(host.name);
      }
    }
  } else if (profiles.devices.empty()) {
    missing.emplace_back("no kind of device: run `fovea profile RECIPE --out DIR`");
  }
  for (const auto& [kind, names] : hosts) {
    missing.push_back(fmt::format(
        "devices '{}' of {}{}: run `fovea profile RECIPE --out DIR` there", kind, names.front(),
        names.size() > 1 ? fmt::format(" and {} more hosts", names.size() - 1) : ""));
  }
  if (has_pairs && !has_point(profiles.communication, "intra")) {
    missing.emplace_back("collectives within a node: profile on one with several devices or cores");
  }
  if (has_nodes && !has_point(profiles.communication, "inter")) {
    missing.emplace_back(
        "collectives between nodes: run `fovea profile` under torchrun or srun on several nodes");
  }
  return missing;
}

}  // namespace fovea::elastic
