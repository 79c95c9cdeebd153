// fovea elastic solve CONFIG --global-batch N
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/elastic.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/elastic/profile/recipe_profile.h"
#include "fovea/elastic/solve/solver.h"
#include "fovea/elastic/solve/upstream_solver.h"

namespace fovea::app {

double cost_weight_of(const std::string& objective) {
  if (const auto weight = elastic::cost_weight_from(objective)) return *weight;
  fail<ConfigError>("--objective: found '{}'; expected time, cost or a number from 0 to 1",
                    objective);
}

elastic::SolveInput load_profiled(const std::string& config) {
  auto input = elastic::load_solve_input(config);
  if (!input.config.profile_dir.empty()) {
    elastic::check_profiles_of_recipe(config, input.profiles);
  }
  return input;
}

namespace {

using nlohmann::ordered_json;

struct SolveArguments {
  std::string config;
  int64_t global_batch = 0;
  std::string objective = "time";
  std::string weight_sync = "recommend";
  bool upstream = false;
  bool json = false;
};

struct Solved {
  elastic::Solution solution;
  int64_t local_batch = 0;  // with --upstream: of every worker
  double solver_ms = 0;
};

Solved solved(const SolveArguments& arguments, const elastic::SolveInput& input) {
  const double weight = cost_weight_of(arguments.objective);
  const auto sync = elastic::sync_of(arguments.weight_sync, input.profiles.bucket_megabytes);
  Solved found;
  const auto start = std::chrono::steady_clock::now();
  if (arguments.upstream) {
    if (weight != 0) fail<ConfigError>("--upstream: JABAS has no objective but time");
    auto upstream = elastic::solve_upstream(input.cluster, input.profiles, sync,
                                            input.config.alloc_unit(), arguments.global_batch);
    if (!upstream.is_found) {
      fail<ConfigError>(
          "{}: --global-batch {} is not a whole number of workers of one profiled batch on units "
          "of "
          "{} devices (resource_alloc_unit); without --upstream any batch has a solution",
          arguments.config, arguments.global_batch, input.config.alloc_unit());
    }
    found.solution = std::move(upstream.solution);
    found.local_batch = upstream.local_batch;
  } else {
    const elastic::SolveModel model(input.cluster, input.profiles, sync);
    found.solution = elastic::solve(
        input.cluster, model, {.global_batch = arguments.global_batch, .cost_weight = weight});
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  found.solver_ms = took.count();
  return found;
}

ordered_json to_json(const elastic::StepParts& parts) {
  return {{"data_ms", parts.data},
          {"forward_ms", parts.forward},
          {"backward_ms", parts.backward},
          {"sync_ms", parts.sync},
          {"communication_ms", parts.communication},
          {"update_ms", parts.update}};
}

ordered_json to_json(const Solved& found) {
  auto devices = ordered_json::array();
  for (const auto& device : found.solution.devices) {
    devices.push_back({{"name", device.name},
                       {"local_batch", device.local_batch},
                       {"micro_batch", device.passes.micro_batch},
                       {"accumulation", device.passes.accumulation},
                       {"concurrent", device.passes.concurrent},
                       {"step_ms", device.parts.total()}});
  }
  return {{"iteration_ms", found.solution.iteration_ms},
          {"parts", to_json(found.solution.parts)},
          {"images_per_second", found.solution.images_per_second},
          {"cost_per_hour", found.solution.cost_per_hour},
          {"solver_ms", found.solver_ms},
          {"weight_sync", elastic::name_of(found.solution.weight_sync)},
          {"left_out", found.solution.left_out},
          {"devices", devices}};
}

bool is_alike(const elastic::Assignment& a, const elastic::Assignment& b) {
  return a.host == b.host && a.local_batch == b.local_batch &&
         a.passes.micro_batch == b.passes.micro_batch &&
         a.passes.accumulation == b.passes.accumulation &&
         a.passes.concurrent == b.passes.concurrent;
}

void print_solved(const SolveArguments& arguments, const Solved& found) {
  const auto& solution = found.solution;
  const auto& parts = solution.parts;
  say("global batch {}: {:.1f} ms a step, {:.0f} images/s, {:.2f} an hour\n",
      arguments.global_batch, solution.iteration_ms, solution.images_per_second,
      solution.cost_per_hour);
  say("  of the slowest device: data {:.1f}, forward {:.1f}, backward {:.1f}, communication that "
      "is not hidden {:.1f}, update {:.1f}, buffers {:.1f} ms\n",
      parts.data, parts.forward, parts.backward, parts.communication, parts.update, parts.sync);
  say("  weights are updated {}{}\n",
      solution.weight_sync == elastic::WeightSync::kOverlap ? "as gradients come (overlap)"
                                                            : "at the end (sequential)",
      arguments.upstream
          ? fmt::format("; every worker has {}", counted(found.local_batch, "sample"))
          : "");
  const auto& devices = solution.devices;
  for (size_t i = 0, end = 0; i < devices.size(); i = end) {
    while (end < devices.size() && is_alike(devices[i], devices[end])) ++end;
    const auto& passes = devices[i].passes;
    say("  {:<14} {}: {} each, passes of {} x {}, {} before the last\n", devices[i].host,
        counted(static_cast<int64_t>(end - i), "device"), counted(devices[i].local_batch, "sample"),
        passes.concurrent, passes.micro_batch, passes.accumulation);
  }
  if (solution.left_out > 0) {
    say("  {} left out{}\n", counted(solution.left_out, "device"),
        arguments.upstream ? "" : ": with them it would not be better");
  }
}

}  // namespace

void add_elastic_solve(Command group) {
  auto command = group.add_command(
      "solve", "Which devices take how many samples of a batch, from their profiles");
  auto arguments = std::make_shared<SolveArguments>();
  command
      .add_option("config", arguments->config,
                  "JABAS's JSON, YAML of its keys, or a recipe with a section elastic")
      .required()
      .type_name("CONFIG");
  command.add_option("--global-batch", arguments->global_batch, "samples of a step")
      .required()
      .in_range(1, int64_t{1} << 30)
      .type_name("N");
  command
      .add_option("--objective", arguments->objective,
                  "time, cost, or the power of the price, from 0 to 1, by which the time of a step "
                  "is weighed")
      .type_name("time|cost|0..1")
      .show_default();
  command
      .add_option("--weight-sync", arguments->weight_sync,
                  "when weights are updated; recommend: by the sizes of buckets")
      .type_name("sequential|overlap|recommend")
      .show_default();
  command.add_flag("--upstream", arguments->upstream, "only what JABAS could choose");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea elastic solve jabas.json --global-batch 512",
                    "fovea elastic solve jabas.json --global-batch 512 --objective cost --json"});
  command.callback([arguments] {
    const auto input = load_profiled(arguments->config);
    const auto found = solved(*arguments, input);
    if (arguments->json) {
      say_as_is("{}\n", json_text(to_json(found)));
    } else {
      print_solved(*arguments, found);
    }
  });
}

}  // namespace fovea::app
