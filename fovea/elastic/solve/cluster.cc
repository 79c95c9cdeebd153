#include "fovea/elastic/solve/cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/nearest.h"
#include "fovea/core/printable.h"

namespace fovea::elastic {
namespace {

constexpr size_t kMaxHosts = 4096;

// The file's root is the map; as the value of a key it is one that configs know.
struct ClusterFile {
  std::map<std::string, HostConfig> hosts;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("hosts", self.hosts, "by name");
  }
};

void check_size(const Cluster& cluster, const std::string& source) {
  if (cluster.hosts.empty()) fail<ConfigError>("{}: no hosts", source);
  if (cluster.hosts.size() > kMaxHosts) {
    fail<ConfigError>("{}: {} hosts; expected at most {}", source, cluster.hosts.size(), kMaxHosts);
  }
}

}  // namespace

double price_by_speed(double tflops) {
  constexpr double kPrice = 3.06, kSpeed = 14.13;
  return kPrice * tflops / kSpeed;
}

int64_t Cluster::num_devices() const {
  int64_t count = 0;
  for (const auto& host : hosts) count += host.config.number;
  return count;
}

Cluster parse_cluster(const std::string& text, const std::string& source,
                      const std::vector<std::string>& names) {
  ConfigTree tree;
  tree.root.kind = ConfigNode::Kind::kMap;
  auto root = parse_config_yaml(text, source);
  const auto in_file = root.keys;
  if (root.kind != ConfigNode::Kind::kMap) {
    fail<ConfigError>("{}: found {}; expected hosts by name", source, describe_node(root));
  }
  tree.root.add("hosts", std::move(root));
  auto file = changed_config(ClusterFile{}, tree, source);
  Cluster cluster;
  std::set<std::string> seen;
  for (const auto& name : names.empty() ? in_file : names) {
    const auto host = file.hosts.find(name);
    if (host == file.hosts.end()) {
      fail<ConfigError>("{}: no host '{}'{}", source, printable_start(name),
                        or_did_you_mean(name, in_file));
    }
    if (!seen.insert(name).second) {
      fail<ConfigError>("available_servers: '{}' stands twice", printable_start(name));
    }
    cluster.hosts.push_back({name, host->second});
  }
  check_size(cluster, source);
  return cluster;
}

Cluster load_cluster(const std::string& path, const std::vector<std::string>& names) {
  return parse_cluster(read_file(path, kMaxConfigBytes), path, names);
}

}  // namespace fovea::elastic
