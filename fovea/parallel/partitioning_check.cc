#include "fovea/parallel/partitioning_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace fovea::parallel {
namespace {

constexpr int64_t kQkv = 3;  // blocks of a Linear that is followed by self-attention

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> result;
  for (int64_t one = 1; one <= number; ++one) {
    if (number % one == 0) result.push_back(one);
  }
  return result;
}

}  // namespace

void check_partitioning(const Partitioning& partitioning, const ParallelConfig& config,
                        ConfigIssues& issues) {
  const bool is_ring = config.cp_method == "ring";
  const bool is_split = std::any_of(partitioning.rules.begin(), partitioning.rules.end(),
                                    [](const auto& rule) { return rule.split != Split::kWhole; });
  if (config.tp > 1 && !is_split) {
    issues.add(
        "parallel.tp", {"model"},
        fmt::format("found {}, but the model has no layer that can be shared out; expected 1, "
                    "or a partitioning_of of the model that names such layers",
                    config.tp));
    return;
  }
  int64_t common = 0, common_heads = 0;
  const SplitRule *misfit = nullptr, *misfit_of_heads = nullptr;
  for (const auto& rule : partitioning.rules) {
    if (rule.groups == 0) continue;
    common = std::gcd(common, rule.groups);
    if (rule.groups % config.tp != 0 && misfit == nullptr) misfit = &rule;
    if (rule.blocks != kQkv) continue;
    common_heads = std::gcd(common_heads, rule.groups);
    if (rule.groups % (config.tp * config.cp) != 0 && !is_ring) misfit_of_heads = &rule;
  }
  if (config.tp > 1 && misfit != nullptr) {
    issues.add("parallel.tp", {"model"},
               fmt::format("found {}, but {} is {} ({}); expected one of {}", config.tp,
                           misfit->groups_name, misfit->groups, misfit->pattern,
                           fmt::join(divisors(common), ", ")));
  } else if (config.cp > 1 && misfit_of_heads != nullptr) {
    issues.add(
        "parallel.cp", {"parallel.tp", "parallel.cp_method", "model"},
        fmt::format("found {} with tp: {}, but {} is {} ({}), and each process attends with "
                    "heads of its own; expected cp x tp to be one of {}, or cp_method: ring",
                    config.cp, config.tp, misfit_of_heads->groups_name, misfit_of_heads->groups,
                    misfit_of_heads->pattern, fmt::join(divisors(common_heads), ", ")));
  }
  if (partitioning.regions.empty() && (config.cp > 1 || config.sequence_parallel)) {
    issues.add(
        config.cp > 1 ? "parallel.cp" : "parallel.sequence_parallel", {"model"},
        fmt::format("found {}, but the model has no sequences whose tokens can be shared out "
                    "(patching: packed has one of each image); expected {}",
                    config.cp > 1 ? std::to_string(config.cp) : "true",
                    config.cp > 1 ? "1: use dp_shard or tp" : "false"));
  }
  for (const auto& region : partitioning.regions) {
    if (!is_ring || config.cp == 1 || region.attn_drop_rate == 0) continue;
    issues.add("parallel.cp_method", {"parallel.cp", "model"},
               fmt::format("found ring with an attn_drop_rate of {} ({}), but no process has all "
                           "probabilities; expected attn_drop_rate: 0, or cp_method: all_to_all",
                           region.attn_drop_rate, region.units.front()));
    return;
  }
}

}  // namespace fovea::parallel
