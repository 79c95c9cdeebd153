#include "fovea/plan/mesh_plan.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::plan {
namespace {

using parallel::ParallelConfig;

std::vector<int64_t> divisors(int64_t number, int64_t most) {
  std::vector<int64_t> result;
  for (int64_t one = 1; one <= std::min(number, most); ++one) {
    if (number % one == 0) result.push_back(one);
  }
  return result;
}

// As a recipe's text would say it.
std::vector<std::string> overrides_of(const ParallelConfig& parallel) {
  std::vector<std::string> overrides = {
      fmt::format("parallel.dp_shard={}", parallel.dp_shard),
      fmt::format("parallel.cp={}", parallel.cp),
      fmt::format("parallel.tp={}", parallel.tp),
      fmt::format("parallel.sequence_parallel={}", parallel.sequence_parallel),
      fmt::format("parallel.recompute={}", parallel.recompute),
      fmt::format("parallel.shard_outer={}", parallel.shard_outer)};
  overrides.push_back(parallel.dp_replicate
                          ? fmt::format("parallel.dp_replicate={}", *parallel.dp_replicate)
                          : "parallel.dp_replicate=auto");
  return overrides;
}

std::vector<ParallelConfig> possible_meshes(const ParallelConfig& recipe, int64_t num_ranks,
                                            int64_t ranks_per_node) {
  std::vector<ParallelConfig> result;
  for (const auto tp : divisors(num_ranks, ranks_per_node)) {
    for (const auto cp : divisors(num_ranks / tp, ranks_per_node)) {
      const int64_t rest = num_ranks / tp / cp;
      std::set<int64_t> shards = {1, rest};
      if (const auto node = ranks_per_node / (tp * cp); node > 1 && rest % node == 0) {
        shards.insert(node);
      }
      for (const auto dp_shard : shards) {
        auto& parallel = result.emplace_back(recipe);
        parallel.tp = tp;
        parallel.cp = cp;
        parallel.dp_shard = dp_shard;
        parallel.dp_replicate = rest / dp_shard;
        parallel.sequence_parallel = tp > 1;
        if (parallel.dp_replicate == 1) parallel.shard_outer = "none";
      }
    }
  }
  return result;
}

std::optional<MeshPlan> try_mesh(const train::TrainConfig& config, const ParallelConfig& parallel,
                                 int64_t num_ranks, const MachineProfile& machine,
                                 std::string& first_fault) {
  try {
    return plan_mesh(with_mesh(config, parallel, num_ranks), num_ranks, machine);
  } catch (const ConfigError& error) {
    if (first_fault.empty()) first_fault = error.what();
    return std::nullopt;
  }
}

}  // namespace

train::TrainConfig with_mesh(const train::TrainConfig& config, const ParallelConfig& parallel,
                             int64_t num_ranks) {
  auto result = parse_config<train::TrainConfig>(dump_config(config), "the recipe with this mesh",
                                                 overrides_of(parallel));
  parallel::mesh_shape(result.parallel, num_ranks, result.data.global_batch_size);
  return result;
}

train::TrainConfig on_machine(train::TrainConfig config, const MachineProfile& machine) {
  auto& fp8 = config.device.fp8;
  if (machine.fp8_tflops > 0 || fp8 == "off") return config;
  if (fp8 != "auto") {
    fail<ConfigError>(
        "device.fp8: found {}, but {} does not multiply FP8 (its fp8_tflops is 0); expected a "
        "machine that does, or fp8=off",
        fp8, machine.name);
  }
  fp8 = "off";
  return config;
}

MeshPlan plan_mesh(const train::TrainConfig& config, int64_t num_ranks,
                   const MachineProfile& machine) {
  const auto mesh = parallel::mesh_shape(config.parallel, num_ranks, config.data.global_batch_size);
  const auto rehearsal = rehearse(config, mesh, /*rank=*/0);
  MeshPlan plan;
  plan.parallel = config.parallel;
  plan.mesh = mesh;
  plan.micro_batch_size = rehearsal.micro_batch_size;
  plan.num_micro_batches = rehearsal.num_micro_batches;
  plan.local_batch_size = rehearsal.local_batch_size;
  plan.memory = rehearsal.memory;
  plan.time = step_time(rehearsal, machine,
                        train::dtype_from_name(config.device.dtype, c10::DeviceType::Meta));
  plan.counts = rehearsal.counts();
  for (const auto& group : rehearsal.groups) {
    plan.group_sizes[group.axis] = static_cast<int64_t>(group.ranks.size());
  }
  plan.flops = rehearsal.flops();
  plan.fits = static_cast<double>(plan.memory.peak()) <= machine.memory_bytes();
  return plan;
}

std::vector<MeshPlan> search_meshes(const train::TrainConfig& config, int64_t num_ranks,
                                    const MachineProfile& machine) {
  std::vector<MeshPlan> plans;
  std::string fault;
  for (auto parallel : possible_meshes(config.parallel, num_ranks, machine.ranks_per_node)) {
    const auto plan = try_mesh(config, parallel, num_ranks, machine, fault);
    if (!plan) continue;
    plans.push_back(*plan);
    if (plan->fits || parallel.recompute != "none") continue;
    parallel.recompute = "block";
    if (const auto again = try_mesh(config, parallel, num_ranks, machine, fault)) {
      plans.push_back(*again);
    }
  }
  if (plans.empty()) throw ConfigError(fault);
  std::stable_sort(plans.begin(), plans.end(), [](const MeshPlan& a, const MeshPlan& b) {
    return a.fits != b.fits ? a.fits : a.time.step < b.time.step;
  });
  return plans;
}

}  // namespace fovea::plan
