// fovea plan RECIPE --gpus N [--mesh ...] [a.b=c ...]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/number_text.h"
#include "fovea/data/order/batch_schedule.h"
#include "fovea/plan/mesh_plan.h"
#include "fovea/plan/pipeline.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/phases.h"

namespace fovea::app {
namespace {

using nlohmann::ordered_json;

struct PlanArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int64_t gpus = 0;
  std::string mesh;
  bool sequence_parallel = false;
  std::string machine = "h200x8";
  bool dry_run = false;
  int64_t rank = 0;
  int64_t top = 10;
  bool json = false;
};

std::string milliseconds_text(double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); }

int64_t size_of(const std::string& key, const std::string& text) {
  const bool is_number =
      !text.empty() && text.size() < 10 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number || std::stoll(text) < 1) {
    fail<ConfigError>("--mesh: found {}={}; expected a number of ranks, 1 or more", key, text);
  }
  return std::stoll(text);
}

// "dp_shard=8,tp=2": what is not named is 1, dp_replicate what is left.
parallel::ParallelConfig parse_mesh(const std::string& text, parallel::ParallelConfig parallel) {
  parallel.dp_replicate.reset();
  parallel.dp_shard = parallel.cp = parallel.tp = 1;
  std::set<std::string> seen;
  for (size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    const auto part = text.substr(begin, end - begin);
    const auto equals = part.find('=');
    const auto key = part.substr(0, equals);
    const auto value = equals == part.npos ? "" : part.substr(equals + 1);
    if (!seen.insert(key).second) fail<ConfigError>("--mesh: {} stands twice", key);
    if (key == "dp_replicate") {
      parallel.dp_replicate = size_of(key, value);
    } else if (key == "dp_shard") {
      parallel.dp_shard = size_of(key, value);
    } else if (key == "cp") {
      parallel.cp = size_of(key, value);
    } else if (key == "tp") {
      parallel.tp = size_of(key, value);
    } else {
      fail<ConfigError>(
          "--mesh: found '{}'; expected sizes of dp_replicate, dp_shard, cp and tp, such as "
          "dp_shard=8,tp=2",
          part);
    }
  }
  return parallel;
}

// Of batches that change their size the largest one has to fit.
train::TrainConfig with_largest_batch(train::TrainConfig config) {
  auto& size = config.data.global_batch_size;
  auto& file = config.data.batch_schedule;
  if (file.empty()) return config;
  for (const auto& change : data::read_batch_schedule(file)) size = std::max(size, change.size);
  tell("data.batch_schedule: the plan is that of its largest batch, {} samples\n", size);
  file.clear();
  return config;
}

train::TrainConfig load_recipe(const PlanArguments& arguments) {
  const auto config = train::load_any_config(arguments.recipe, arguments.overrides);
  return with_largest_batch(config.phases.empty() ? config
                                                  : train::resolve_phases(config).front().config);
}

std::string mesh_text(const parallel::MeshShape& mesh) {
  return fmt::format("dp_replicate {} x dp_shard {} x cp {} x tp {}", mesh.sizes[0], mesh.sizes[1],
                     mesh.sizes[2], mesh.sizes[3]);
}

std::string options_text(const parallel::ParallelConfig& parallel) {
  std::vector<std::string> words;
  if (parallel.dp_shard > 1) words.push_back(fmt::format("zero {}", parallel.zero));
  if (parallel.shard_outer != "none") words.push_back("shard_outer " + parallel.shard_outer);
  if (parallel.sequence_parallel) words.emplace_back("sequence_parallel");
  if (parallel.recompute != "none") words.push_back("recompute " + parallel.recompute);
  return fmt::format("{}", fmt::join(words, ", "));
}

void print_memory(const plan::MeshPlan& plan, const plan::MachineProfile& machine) {
  const auto& memory = plan.memory;
  say("memory of a rank         {} of {}{}\n", format_bytes(static_cast<double>(memory.peak())),
      format_bytes(machine.memory_bytes()), plan.fits ? "" : ": DOES NOT FIT");
  const auto line = [](const char* name, int64_t bytes, const char* what) {
    if (bytes > 0) say("  {:<22} {:>10}{}\n", name, format_bytes(static_cast<double>(bytes)), what);
  };
  line("parameters", memory.parameters, "");
  line("gradients", memory.gradients, "");
  line("optimizer", memory.optimizer, "");
  line("average (EMA)", memory.average, "");
  line("activations", memory.activations, "  of a micro-batch, waiting for backward");
  line("the rest at the peak", std::max<int64_t>(0, memory.working - memory.activations),
       "  gathered weights, gradients on their way, work in progress");
  if (memory.host.state() == 0) return;
  say("memory of the host        {} a rank (cpu_offload)\n",
      format_bytes(static_cast<double>(memory.host_peak())));
  line("parameters", memory.host.parameters, "");
  line("gradients", memory.host.gradients, "");
  line("optimizer", memory.host.optimizer, "");
  line("average (EMA)", memory.host.average, "");
  line("the optimizer's work", memory.host_working, "");
}

void print_collectives(const plan::MeshPlan& plan) {
  say("collectives of a rank and step\n");
  say("  {:<24}{:>6}  {:<16}{:>8}{:>12}{:>12}\n", "axis", "ranks", "collective", "calls", "bytes",
      "waited");
  for (const auto& [axis, counts] : plan.counts) {
    const auto waits = plan.time.exposed_by_axis.find(axis);
    auto waited = waits == plan.time.exposed_by_axis.end() ? "" : milliseconds_text(waits->second);
    for (const auto& [collective, count] : counts) {
      say("  {:<24}{:>6}  {:<16}{:>8}{:>12}{:>12}\n", axis, plan.group_sizes.at(axis),
          name_of(collective), count.calls, format_bytes(static_cast<double>(count.bytes)), waited);
      waited.clear();
    }
  }
  if (plan.counts.empty()) say("  none\n");
}

void print_step(const plan::MeshPlan& plan, const train::TrainConfig& config,
                const plan::MachineProfile& machine) {
  const auto& time = plan.time;
  say("step                     {}: products {}, other work {}, waiting for ranks {}\n",
      milliseconds_text(time.step), milliseconds_text(time.products),
      milliseconds_text(time.memory), milliseconds_text(time.exposed));
  const double images = static_cast<double>(config.data.global_batch_size) / time.step;
  if (plan.memory.host.state() > 0) {
    say("{:25}without what cpu_offload adds: the bus, and the update on the host\n", "");
  }
  say("speed                    {:.0f} images/s, {:.1f} TFLOP/s of products a rank ({} {})\n",
      images, 1e-12 * plan.flops / time.step, machine.name, config.device.dtype);
}

void print_pipeline(const std::vector<plan::PipelinePoint>& points) {
  const auto& last = points.back();
  const auto share = [](double part, double whole) { return 100 * part / whole; };
  say("pipeline parallel        ");
  if (last.stages == 0) {
    say("no blocks, or no ranks of data parallel, to make stages of\n");
    return;
  }
  say("at {} ranks {} stages cost a bubble of {:.1f} % against {:.1f} % of the step that\n",
      points.front().num_ranks, points.front().stages, 100 * points.front().bubble,
      share(points.front().exposed, points.front().step));
  say("{:25}waits for data parallel: {} with, {} without.\n", "",
      milliseconds_text(points.front().step_with), milliseconds_text(points.front().step));
  if (!last.pays()) {
    say("{:25}With this batch it pays at no size up to {} ranks\n", "", last.num_ranks);
  } else {
    say("{:25}It starts to pay at about {} ranks: {} stages, {} against {}\n", "", last.num_ranks,
        last.stages, milliseconds_text(last.step_with), milliseconds_text(last.step));
  }
}

ordered_json to_json(const plan::MeshPlan& plan) {
  ordered_json collectives = ordered_json::array();
  for (const auto& [axis, counts] : plan.counts) {
    for (const auto& [collective, count] : counts) {
      collectives.push_back({{"axis", axis},
                             {"ranks", plan.group_sizes.at(axis)},
                             {"collective", name_of(collective)},
                             {"calls", count.calls},
                             {"bytes", count.bytes}});
    }
  }
  ordered_json mesh;
  for (size_t i = 0; i < parallel::kNumMeshAxes; ++i) {
    mesh[name_of(static_cast<parallel::MeshAxis>(i))] = plan.mesh.sizes[i];
  }
  return {{"mesh", mesh},
          {"sequence_parallel", plan.parallel.sequence_parallel},
          {"zero", plan.parallel.zero},
          {"recompute", plan.parallel.recompute},
          {"micro_batch_size", plan.micro_batch_size},
          {"micro_batches", plan.num_micro_batches},
          {"fits", plan.fits},
          {"parameters_bytes", plan.memory.parameters},
          {"gradients_bytes", plan.memory.gradients},
          {"optimizer_bytes", plan.memory.optimizer},
          {"average_bytes", plan.memory.average},
          {"activations_bytes", plan.memory.activations},
          {"peak_bytes", plan.memory.peak()},
          {"host_bytes", plan.memory.host_peak()},
          {"flops", plan.flops},
          {"step_ms", 1e3 * plan.time.step},
          {"products_ms", 1e3 * plan.time.products},
          {"memory_ms", 1e3 * plan.time.memory},
          {"waiting_ms", 1e3 * plan.time.exposed},
          {"collectives", collectives}};
}

void show_one(const PlanArguments& arguments, const train::TrainConfig& config,
              const plan::MachineProfile& machine) {
  const auto found = plan::plan_mesh(config, arguments.gpus, machine);
  const auto points = plan::pipeline_points(config, found, machine);
  if (arguments.json) {
    auto object = to_json(found);
    object["pipeline_pays_at"] =
        points.back().pays() ? ordered_json(points.back().num_ranks) : ordered_json(nullptr);
    say_as_is("{}\n", json_text(object));
    return;
  }
  const auto options = options_text(found.parallel);
  say("mesh                     {} = {} ranks of {}{}{}\n", mesh_text(found.mesh), arguments.gpus,
      machine.name, options.empty() ? "" : "; ", options);
  say("batch                    {}: of a rank {}, in {} micro-batch{} of {}\n",
      config.data.global_batch_size, found.local_batch_size, found.num_micro_batches,
      found.num_micro_batches == 1 ? "" : "es", found.micro_batch_size);
  print_memory(found, machine);
  print_collectives(found);
  print_step(found, config, machine);
  print_pipeline(points);
}

void show_best(const PlanArguments& arguments, const train::TrainConfig& config,
               const plan::MachineProfile& machine) {
  auto plans = plan::search_meshes(config, arguments.gpus, machine);
  const auto count = std::min(plans.size(), static_cast<size_t>(arguments.top));
  if (arguments.json) {
    for (size_t i = 0; i < count; ++i) say_as_is("{}\n", json_text(to_json(plans[i])));
    return;
  }
  say("{} possible meshes of {} ranks of {}, batch {}; the fastest first\n", plans.size(),
      arguments.gpus, machine.name, config.data.global_batch_size);
  say("{:>12}{:>9}{:>4}{:>4}  {:>10}{:>11}{:>11}{:>8}  {}\n", "dp_replicate", "dp_shard", "cp",
      "tp", "step", "images/s", "memory", "waits", "");
  for (size_t i = 0; i < count; ++i) {
    const auto& plan = plans[i];
    const double images = static_cast<double>(config.data.global_batch_size) / plan.time.step;
    const auto host = plan.memory.host_peak();
    say("{:>12}{:>9}{:>4}{:>4}  {:>10}{:>11.0f}{:>11}{:>6.1f} %  {}{}{}\n", plan.mesh.sizes[0],
        plan.mesh.sizes[1], plan.mesh.sizes[2], plan.mesh.sizes[3],
        milliseconds_text(plan.time.step), images,
        format_bytes(static_cast<double>(plan.memory.peak())),
        100 * plan.time.exposed / plan.time.step, options_text(plan.parallel),
        plan.fits ? "" : "  DOES NOT FIT",
        host > 0 ? fmt::format("  host {}", format_bytes(static_cast<double>(host))) : "");
  }
  say("--mesh dp_replicate={},dp_shard={},cp={},tp={} shows one in full\n", plans[0].mesh.sizes[0],
      plans[0].mesh.sizes[1], plans[0].mesh.sizes[2], plans[0].mesh.sizes[3]);
}

// The ranks whose sequences are compared with rank `rank`: the first, the middle and the last one
// of the mesh, and the others at the end of each of the rank's groups.
std::set<int64_t> ranks_to_compare(const parallel::MeshShape& mesh, int64_t rank) {
  std::set<int64_t> ranks = {0, mesh.num_ranks() / 2, mesh.num_ranks() - 1};
  for (size_t i = 0; i < parallel::kNumMeshAxes; ++i) {
    const std::array axis = {static_cast<parallel::MeshAxis>(i)};
    const auto group = mesh.group_of(rank, axis);
    ranks.insert(group.front());
    ranks.insert(group.back());
  }
  ranks.erase(rank);
  return ranks;
}

void dry_run(const PlanArguments& arguments, const train::TrainConfig& config) {
  const auto mesh =
      parallel::mesh_shape(config.parallel, arguments.gpus, config.data.global_batch_size);
  if (arguments.rank >= mesh.num_ranks()) {
    fail<ConfigError>("--rank: found {}, but the mesh has ranks 0 to {}", arguments.rank,
                      mesh.num_ranks() - 1);
  }
  const auto own = plan::rehearse(config, mesh, arguments.rank);
  int64_t count = 0;
  own.for_each([&](const plan::Event& event) {
    if (event.kind != plan::Event::Kind::kStart) return;
    const auto& group = own.groups[event.group];
    if (arguments.json) {
      const ordered_json line = {
          {"position", count},    {"axis", group.axis},   {"collective", name_of(event.collective)},
          {"bytes", event.bytes}, {"dtype", event.dtype}, {"what", event.what}};
      say_as_is("{}\n", json_text(line));
    } else {
      say("{:>6}  {:<24}{:<16}{:>12}  {} ({})\n", count, group.axis, name_of(event.collective),
          event.bytes, event.what, event.dtype);
    }
    count += 1;
  });
  const auto others = ranks_to_compare(mesh, arguments.rank);
  for (const auto other : others) {
    plan::check_same_sequence(own, plan::rehearse(config, mesh, other));
  }
  tell("{} collectives of rank {} in a step of {}; rank{} {} {} the same along every axis\n", count,
       arguments.rank, mesh_text(mesh), others.size() == 1 ? "" : "s", fmt::join(others, ", "),
       others.size() == 1 ? "has" : "have");
}

void run(const PlanArguments& arguments) {
  const auto machine = plan::machine_profile(arguments.machine);
  auto config = plan::on_machine(load_recipe(arguments), machine);
  if (arguments.mesh.empty()) {
    if (arguments.dry_run || arguments.sequence_parallel) {
      fail<ConfigError>("{}: is of one mesh; name it with --mesh, such as --mesh dp_shard=8,tp=2",
                        arguments.dry_run ? "--dry-run" : "--sequence-parallel");
    }
    return show_best(arguments, config, machine);
  }
  auto parallel = parse_mesh(arguments.mesh, config.parallel);
  parallel.sequence_parallel = arguments.sequence_parallel;
  config = plan::with_mesh(config, parallel, arguments.gpus);
  return arguments.dry_run ? dry_run(arguments, config) : show_one(arguments, config, machine);
}

}  // namespace

void add_plan(Command app) {
  auto command = app.add_command(
      "plan",
      "What a recipe costs on a cluster: memory, communication and step time of a mesh, or the "
      "best meshes; needs no cluster");
  auto arguments = std::make_shared<PlanArguments>();
  command.add_option("recipe", arguments->recipe, "a recipe or a run folder")
      .required()
      .type_name("RECIPE|RUN_DIR");
  add_overrides(command, arguments->overrides, "parallel.zero=2");
  command.add_option("--gpus", arguments->gpus, "ranks, each a GPU or a process")
      .required()
      .positive();
  command
      .add_option("--mesh", arguments->mesh,
                  "sizes, such as dp_replicate=16,dp_shard=8,cp=1,tp=2; those left out are 1, "
                  "dp_replicate what is left; without --mesh: the best ones")
      .type_name("AXIS=SIZE,...");
  command.add_flag("--sequence-parallel", arguments->sequence_parallel,
                   "with tp: norms and drops on its shares of the tokens");
  command
      .add_option("--machine", arguments->machine,
                  "h200x8, a100x8, frontier, cpu, or a YAML file (docs/plan.md)")
      .show_default();
  command.add_flag("--dry-run", arguments->dry_run,
                   "print the collectives of a rank's step in their order, and check that other "
                   "ranks have the same");
  command.add_option("--rank", arguments->rank, "with --dry-run, whose")
      .non_negative()
      .show_default();
  command.add_option("--top", arguments->top, "without --mesh, lines of the table")
      .positive()
      .show_default();
  command.add_flag("--json", arguments->json,
                   "print one JSON object a result on standard output and nothing else there");
  command.examples(
      {"fovea plan recipes/imagenet/rosetta_vit_b16.yaml --gpus 64",
       "fovea plan recipes/imagenet/rosetta_vit_g14.yaml --gpus 64 --mesh dp_shard=32,tp=2",
       "fovea plan recipes/fashion_mnist/vit.yaml --gpus 4 --mesh dp_shard=4 --dry-run"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
