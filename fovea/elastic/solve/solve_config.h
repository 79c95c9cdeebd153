// What batches and devices of a run follow: JABAS's keys, as its JSON has them and as they may
// stand under `elastic:` in a recipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/elastic/solve/cluster.h"
#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic {

struct SolveConfig {
  std::string profile_dir{};
  std::string memory_profile_dir{};
  std::string comp_profile_dir{};
  std::string comm_profile_dir{};
  std::string bucket_profile_dir{};
  std::string gpu_cluster_info{};
  std::vector<std::string> available_servers{};
  std::optional<int64_t> batch_size_lower_bound{};
  std::optional<int64_t> batch_size_upper_bound{};
  std::optional<double> similarity_target{};
  double batch_size_adjust_rate = 0.1;
  int64_t batch_size_adjust_interval = 100;
  std::string resource_alloc_unit = "4gpu";
  std::vector<std::vector<std::string>> homo_servers{};
  std::string metric = "similarity";
  bool enable_adjust = true;
  std::optional<int64_t> original_batch_size{};
  std::string global_lr_modifier = "sqrt";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("profile_dir", self.profile_dir, "folder of profiles, as `fovea profile` writes them");
    v.field("memory_profile_dir", self.memory_profile_dir,
            "JABAS's: BATCH/HOST/max_memory_profile_info.json");
    v.field("comp_profile_dir", self.comp_profile_dir,
            "JABAS's: BATCH/HOST/NAME_comp_profile.json");
    v.field("comm_profile_dir", self.comm_profile_dir,
            "JABAS's: intra_comm_profile_data.txt and inter_comm_profile_data.txt");
    v.field("bucket_profile_dir", self.bucket_profile_dir, "JABAS's: a file of buckets' sizes");
    v.field("gpu_cluster_info", self.gpu_cluster_info,
            "file that says of each host its kind of devices, their number, bandwidths and price");
    v.field("available_servers", self.available_servers,
            "hosts of gpu_cluster_info that may take part; none: all of them");
    v.field("batch_size_lower_bound", self.batch_size_lower_bound,
            "least global batch, which the run begins with", {.min = 1, .unit = "samples"});
    v.field("batch_size_upper_bound", self.batch_size_upper_bound, "largest global batch",
            {.min = 1, .unit = "samples"});
    v.field("similarity_target", self.similarity_target,
            "cosine of the gradients of a batch's two halves: below it the batch grows, above it "
            "it shrinks",
            {.min = -1, .max = 1});
    v.field("batch_size_adjust_rate", self.batch_size_adjust_rate,
            "by how much of itself a batch grows or shrinks",
            {.min = 0, .max = 1, .exclusive_min = true});
    v.field("batch_size_adjust_interval", self.batch_size_adjust_interval,
            "steps between two looks at the batch", {.min = 1, .unit = "steps"});
    v.field("resource_alloc_unit", self.resource_alloc_unit,
            "with --upstream: devices of a host come and go in groups of so many, '4gpu'");
    v.field("homo_servers", self.homo_servers,
            "hosts that are alike; they are told from their devices here, whatever it says");
    v.field("metric", self.metric, "what the batch follows", {.choices = {"similarity", "noise"}});
    v.field("enable_adjust", self.enable_adjust, "whether the batch changes at all");
    v.field("original_batch_size", self.original_batch_size,
            "batch that the learning rate is meant for; by default the lower bound",
            {.min = 1, .unit = "samples"});
    v.field("global_lr_modifier", self.global_lr_modifier,
            "how the learning rate follows the batch", {.choices = {"sqrt", "linear", "none"}});
  }
  void validate(ConfigIssues& issues) const;

  // Devices of a group that comes and goes as one; resource_alloc_unit as a number.
  int64_t alloc_unit() const;
};

// The power of the price in what is made least: of "time" 0, of "cost" 1, else the number itself;
// nothing: it is not from 0 to 1.
std::optional<double> cost_weight_from(const std::string& objective);

// JABAS's JSON, YAML of the same keys, or a recipe, whose section `elastic` it is. Throws
// ConfigError with file and line of every fault.
SolveConfig load_solve_config(const std::string& path);
SolveConfig parse_solve_config(const std::string& text, const std::string& source);

// The hosts and profiles that a config at `path` names. Relative paths are looked for where the
// program runs, then from the config's folder, then from the folder around that, where JABAS's
// examples have theirs. Throws ConfigError for what the config lacks, DataError for bad profiles.
struct SolveInput {
  SolveConfig config;
  Cluster cluster;  // of available_servers
  ProfileSet profiles;
};
SolveInput load_solve_input(const std::string& path);
// The hosts alone.
Cluster load_cluster_of(const std::string& path);

}  // namespace fovea::elastic
