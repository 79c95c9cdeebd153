#include "fovea/plan/machine_profile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"

namespace fovea::plan {
namespace {

// Data sheets' rates of dense products times 0.6, about what large products reach, float32 without
// TF32 times 0.8, memory and links times 0.8; where measured, that.
const std::vector<MachineProfile>& built_in_profiles() {
  static const std::vector<MachineProfile> profiles = {
      // Eight H200 SXM, NVLink 4 (450 GB/s in one direction), a 400 Gbit/s port for each. Products
      // in bfloat16 and memory as PyTorch 2.11 reached them on one H200 (8192^3; a copy of 4.3 GB);
      // FP8 (1,979 TFLOP/s) was not measured.
      {.name = "h200x8",
       .ranks_per_node = 8,
       .float32_tflops = 54,
       .bfloat16_tflops = 788,
       .fp8_tflops = 1190,
       .memory_bandwidth = 4300,
       .intra_node_bandwidth = 360,
       .inter_node_bandwidth = 40,
       .intra_node_latency = 5,
       .inter_node_latency = 15,
       .memory = 131},
      // Eight A100 SXM 80 GB (312 TFLOP/s bfloat16, 19.5 float32, 2.0 TB/s), NVLink 3 (300 GB/s),
      // 200 Gbit/s for each.
      {.name = "a100x8",
       .ranks_per_node = 8,
       .float32_tflops = 16,
       .bfloat16_tflops = 187,
       .memory_bandwidth = 1600,
       .intra_node_bandwidth = 240,
       .inter_node_bandwidth = 20,
       .intra_node_latency = 5,
       .inter_node_latency = 15,
       .memory = 80e9 / double(int64_t{1} << 30)},
      // Frontier: eight halves of MI250X (191.5 bfloat16, 47.9 float32, 1.6 TB/s, 64 GiB), Infinity
      // Fabric of 50 GB/s, four ports of 200 Gbit/s for eight.
      {.name = "frontier",
       .ranks_per_node = 8,
       .float32_tflops = 28,
       .bfloat16_tflops = 115,
       .memory_bandwidth = 1300,
       .intra_node_bandwidth = 40,
       .inter_node_bandwidth = 10,
       .intra_node_latency = 10,
       .inter_node_latency = 20,
       .memory = 64},
      // One core a rank of a machine with AVX-512 and bfloat16, Gloo over the loopback: the order
      // of magnitude, for trying things out.
      {.name = "cpu",
       .ranks_per_node = 2,
       .float32_tflops = 0.15,
       .bfloat16_tflops = 0.4,
       .memory_bandwidth = 10,
       .intra_node_bandwidth = 1.5,
       .inter_node_bandwidth = 0.1,
       .intra_node_latency = 100,
       .inter_node_latency = 200,
       .memory = 8},
  };
  return profiles;
}

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const auto& profile : built_in_profiles()) names.push_back(profile.name);
  return names;
}

MachineProfile machine_profile(const std::string& name_or_file) {
  for (const auto& profile : built_in_profiles()) {
    if (profile.name == name_or_file) return profile;
  }
  if (!is_there(name_or_file)) {
    fail<ConfigError>(
        "--machine: found {}; expected one of {}, or a YAML file (docs/plan.md has its keys)",
        name_or_file, fmt::join(machine_names(), ", "));
  }
  auto profile = load_config<MachineProfile>(name_or_file);
  if (profile.name.empty()) profile.name = name_or_file;
  return profile;
}

}  // namespace fovea::plan
