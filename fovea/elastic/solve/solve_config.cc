#include "fovea/elastic/solve/solve_config.h"

#include <filesystem>
#include <set>
#include <utility>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/nearest.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/solve/jabas_profile.h"

namespace fovea::elastic {
namespace {

constexpr size_t kMaxPathBytes = 4000;

std::optional<int64_t> unit_of(const std::string& text) {
  if (!text.ends_with("gpu")) return {};
  const auto number = parse_number<int64_t>(std::string_view(text).substr(0, text.size() - 3));
  return number && *number >= 1 && *number <= 4096 ? number : std::nullopt;
}

std::string place_of(const std::string& config, const std::string& key, const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) {
    fail<ConfigError>("{}: {} is not given; expected {}, or profile_dir and gpu_cluster_info",
                      config, key, key);
  }
  if (path.size() > kMaxPathBytes) {
    fail<ConfigError>("{}: {}: {} is longer than a path can be", config, key,
                      printable_start(path));
  }
  if (fs::path(path).is_absolute() || is_there(path)) return path;
  const auto folder = fs::absolute(config).parent_path();
  for (const auto& from : {folder, folder.parent_path()}) {
    if (is_there(from / path)) return (from / path).string();
  }
  fail<ConfigError>("{}: {}: {} is neither here nor in {} nor in {}", config, key,
                    printable_start(path), folder.string(), folder.parent_path().string());
}

void check_devices(const SolveInput& input) {
  for (const auto& host : input.cluster.hosts) {
    const auto* device = input.profiles.find(host.name, host.config.type);
    if (device == nullptr) {
      fail<DataError>("{}: no profile of '{}', the devices of host {}", input.profiles.source,
                      printable_start(host.config.type), printable_start(host.name));
    }
    if (device->fingerprint != host.config.type) {
      fail<DataError>("{}: profile of host {} is of '{}'; its devices are '{}'",
                      input.profiles.source, printable_start(host.name),
                      printable_start(device->fingerprint), printable_start(host.config.type));
    }
  }
}

// Of a recipe's section, which has keys of the trainer too, those that are read here. A misspelt
// one is found by whoever reads the recipe as a whole.
ConfigNode ours_of(const ConfigNode& section) {
  if (section.kind != ConfigNode::Kind::kMap) return section;
  std::set<std::string> known;
  for (const auto& key : config_keys<SolveConfig>()) known.insert(key.key);
  ConfigNode ours;
  ours.kind = section.kind;
  ours.origin = section.origin;
  for (size_t i = 0; i < section.keys.size(); ++i) {
    if (known.count(section.keys[i]) > 0) ours.add(section.keys[i], section.children[i]);
  }
  return ours;
}

}  // namespace

void SolveConfig::validate(ConfigIssues& issues) const {
  if (batch_size_lower_bound && batch_size_upper_bound &&
      *batch_size_lower_bound > *batch_size_upper_bound) {
    issues.add("batch_size_lower_bound", {"batch_size_upper_bound"},
               fmt::format("{} is above batch_size_upper_bound, {}", *batch_size_lower_bound,
                           *batch_size_upper_bound));
  }
  if (!unit_of(resource_alloc_unit)) {
    issues.add("resource_alloc_unit", fmt::format("found '{}'; expected a number of devices, such "
                                                  "as 4gpu",
                                                  printable_start(resource_alloc_unit)));
  }
  if (!profile_dir.empty() && !comp_profile_dir.empty()) {
    issues.add("profile_dir", {"comp_profile_dir"},
               "stands beside comp_profile_dir; expected one of them");
  }
}

int64_t SolveConfig::alloc_unit() const { return unit_of(resource_alloc_unit).value_or(1); }

std::optional<double> cost_weight_from(const std::string& objective) {
  if (objective == "time") return 0;
  if (objective == "cost") return 1;
  const auto weight = parse_number<double>(objective);
  return weight && *weight >= 0 && *weight <= 1 ? weight : std::nullopt;
}

SolveConfig parse_solve_config(const std::string& text, const std::string& source) {
  ConfigTree tree{.root = parse_config_yaml(text, source)};
  if (const auto* section = tree.root.find("elastic")) {
    auto found = ours_of(*section);
    tree.root = std::move(found);
  }
  if (tree.root.kind != ConfigNode::Kind::kMap) {
    fail<ConfigError>("{}: found {}; expected keys such as gpu_cluster_info", source,
                      describe_node(tree.root));
  }
  return changed_config(SolveConfig{}, tree, source);
}

SolveConfig load_solve_config(const std::string& path) {
  if (!is_there(path)) fail<ConfigError>("{}: no such file{}", path, or_nearest_path(path));
  return parse_solve_config(read_file(path, kMaxConfigBytes), path);
}

Cluster load_cluster_of(const std::string& path) {
  const auto config = load_solve_config(path);
  return load_cluster(place_of(path, "gpu_cluster_info", config.gpu_cluster_info),
                      config.available_servers);
}

SolveInput load_solve_input(const std::string& path) {
  SolveInput input;
  input.config = load_solve_config(path);
  const auto& config = input.config;
  input.cluster = load_cluster(place_of(path, "gpu_cluster_info", config.gpu_cluster_info),
                               config.available_servers);
  if (config.profile_dir.empty()) {
    std::vector<std::string> hosts;
    for (const auto& host : input.cluster.hosts) hosts.push_back(host.name);
    const JabasFolders folders = {
        .memory = place_of(path, "memory_profile_dir", config.memory_profile_dir),
        .computation = place_of(path, "comp_profile_dir", config.comp_profile_dir),
        .communication = place_of(path, "comm_profile_dir", config.comm_profile_dir),
        .buckets = place_of(path, "bucket_profile_dir", config.bucket_profile_dir)};
    input.profiles = read_jabas_profiles(folders, hosts);
  } else {
    input.profiles = read_profiles(place_of(path, "profile_dir", config.profile_dir));
  }
  check_devices(input);
  return input;
}

}  // namespace fovea::elastic
