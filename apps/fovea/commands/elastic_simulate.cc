// fovea elastic simulate TRACE --policy fixed|upstream|ours
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/elastic.h"
#include "apps/fovea/output.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/nearest.h"
#include "fovea/core/number_text.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/recorded_run.h"
#include "fovea/elastic/solve/simulation.h"
#include "fovea/files/atomic_file.h"
#include "fovea/html/html.h"
#include "fovea/train/recipe/elastic_config.h"
#include "fovea/train/report/svg_plot.h"

namespace fovea::app {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kMaxTraceBytes = uint64_t{64} << 20;
constexpr size_t kMaxPathBytes = 4000;
constexpr int kColorOfPresent = 7;

struct SimulateArguments {
  std::string trace;
  double first_part = 1;
  std::string save_trace;
  std::vector<std::string> policies;
  std::string objective = "time";
  std::string weight_sync = "recommend";
  std::string out;
  bool json = false;
};

// What is simulated, and of a recorded run how it went.
struct Loaded {
  elastic::Cluster cluster;
  elastic::ProfileSet profiles;
  elastic::Trace trace;
  int64_t alloc_unit = 1;
  double run_hours = 0, learned_hours = 0;  // 0: no run
};

struct Simulated {
  elastic::SimulatedRun run;
  double wall_s = 0;
};

// The trace's config is named from where the program runs, or from the trace's folder.
std::string config_of(const std::string& trace, const std::string& config) {
  if (config.size() < kMaxPathBytes && is_there(config)) return config;
  const auto beside = std::filesystem::absolute(trace).parent_path() / config;
  if (config.empty() || config.size() >= kMaxPathBytes || !is_there(beside)) {
    fail<DataError>("{}:1: config: there is no file '{}', here or beside the trace", trace,
                    printable_start(config));
  }
  return beside.string();
}

// What the keys `elastic:` of a recipe say of shares, for what a trace leaves open.
elastic::TraceHead shares_of(const std::string& config) {
  const auto tree = parse_config_yaml(read_file(config, kMaxConfigBytes), config);
  const auto* section = tree.find("elastic");
  if (section == nullptr) return {};
  const auto elastic = changed_config(train::ElasticConfig(), {.root = *section}, config);
  elastic::TraceHead head;
  head.shares = elastic.shares;
  head.shares_gain = elastic.shares_gain;
  head.shares_after = elastic.shares_after;
  return head;
}

Loaded load_run(const SimulateArguments& arguments) {
  auto run = elastic::read_recorded_run(arguments.trace, arguments.first_part);
  if (!arguments.save_trace.empty()) elastic::write_recorded_run(run, arguments.save_trace);
  return {.cluster = std::move(run.cluster),
          .profiles = std::move(run.profiles),
          .trace = std::move(run.trace),
          .run_hours = run.hours,
          .learned_hours = run.learned_hours};
}

Loaded load(const SimulateArguments& arguments) {
  if (!is_there(arguments.trace)) {
    fail<ConfigError>("{}: no such file or folder{}", arguments.trace,
                      or_nearest_path(arguments.trace));
  }
  if (is_folder(arguments.trace)) return load_run(arguments);
  if (!arguments.save_trace.empty() || arguments.first_part < 1) {
    fail<ConfigError>("{}: --save-trace and --first-part are for the folder of a run; {} is a file",
                      arguments.trace, arguments.trace);
  }
  const auto text = read_file(arguments.trace, kMaxTraceBytes);
  const auto head = elastic::parse_trace_head(text.substr(0, text.find('\n')), arguments.trace);
  const auto config = config_of(arguments.trace, head.config);
  auto input = load_profiled(config);
  auto trace = elastic::parse_trace(text, arguments.trace, input.cluster, shares_of(config));
  return {.cluster = std::move(input.cluster),
          .profiles = std::move(input.profiles),
          .trace = std::move(trace),
          .alloc_unit = input.config.alloc_unit()};
}

std::vector<Simulated> simulated(const SimulateArguments& arguments, const Loaded& loaded) {
  std::vector<Simulated> all;
  for (const auto& policy : arguments.policies) {
    const auto start = std::chrono::steady_clock::now();
    auto run = elastic::simulate(
        loaded.trace, loaded.cluster, loaded.profiles, loaded.alloc_unit,
        {.policy = policy,
         .cost_weight = cost_weight_of(arguments.objective),
         .sync = elastic::sync_of(arguments.weight_sync, loaded.profiles.bucket_megabytes)});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    all.push_back({std::move(run), took.count()});
  }
  return all;
}

ordered_json to_json(const Simulated& simulated, const Loaded& loaded) {
  const auto& run = simulated.run;
  ordered_json json = {{"policy", run.policy},
                       {"hours", run.hours},
                       {"cost", run.cost},
                       {"changes", run.changes},
                       {"wall_s", simulated.wall_s},
                       {"is_done", run.is_done},
                       {"samples", run.samples},
                       {"lost_samples", run.lost_samples},
                       {"idle_hours", run.idle_hours}};
  if (loaded.run_hours > 0) {
    json["run_hours"] = loaded.run_hours;
    json["learned_hours"] = loaded.learned_hours;
  }
  return json;
}

// How a value goes from one point to the next.
enum class Between { kLine, kStep };

template <class Value>
train::Curve curve_of(const elastic::SimulatedRun& run, Between between, Value value) {
  train::Curve curve;
  for (const auto& point : run.points) {
    if (between == Between::kStep && curve.size() > 0) curve.add(point.hour, curve.y.back());
    curve.add(point.hour, value(point));
  }
  return curve;
}

// One line for each policy; `value` of a point.
template <class Value>
html::Markup chart(const std::string& title, const std::vector<Simulated>& all, Between between,
                   Value value, std::vector<train::PlotSeries> series = {}) {
  int color = 0;  // of a policy: the same in each chart
  for (const auto& one : all) {
    series.push_back(
        {.name = one.run.policy, .curve = curve_of(one.run, between, value), .color = color++});
  }
  return train::line_chart({.title = title, .x_label = "hours", .from_zero = true}, series);
}

html::Markup simulation_table(const std::vector<Simulated>& all) {
  html::Table table{
      .caption = "Whole runs",
      .headers = {"Policy", "Hours", "Cost", "Changes", "Samples", "Computed twice", "Idle hours"},
      .rows = {}};
  for (const auto& [run, wall_s] : all) {
    table.rows.push_back(
        {html::text(run.policy + (run.is_done ? "" : " (not done)")),
         html::text(format_fixed(run.hours, 2)), html::text(format_fixed(run.cost, 2)),
         html::text(format_count(static_cast<double>(run.changes))),
         html::text(format_count(run.samples)), html::text(format_count(run.lost_samples)),
         html::text(format_fixed(run.idle_hours, 2))});
  }
  return html::table(table);
}

void write_simulation_page(const std::string& path, const std::string& trace,
                           const std::vector<Simulated>& all) {
  const auto there = curve_of(all.front().run, Between::kStep,
                              [](const auto& point) { return static_cast<double>(point.present); });
  const auto charts = html::element(
      "div", {{"class", "charts"}},
      chart("Samples", all, Between::kLine, [](const auto& point) { return point.samples; }) +
          chart("Cost", all, Between::kLine, [](const auto& point) { return point.cost; }) +
          chart("Devices that work", all, Between::kStep,
                [](const auto& point) { return static_cast<double>(point.devices); },
                {{.name = "there", .curve = there, .color = kColorOfPresent}}) +
          chart("Images per second", all, Between::kStep,
                [](const auto& point) { return point.images_per_second; }));
  const auto name = std::filesystem::path(trace).filename().string();
  const auto body = html::body_of_parts(
      name, "A run on a cluster whose hosts come and go, as profiles predict it.", {},
      {{"runs", "Runs", simulation_table(all)}, {"charts", "Over time", charts}},
      "fovea elastic simulate");
  write_file_atomic(path, html::page(name, body));
}

void print_simulated(const std::vector<Simulated>& all, const Loaded& loaded) {
  if (loaded.run_hours > 0) {
    say("the run    took {:.4f} h; rates are from its first {:.4f} h\n", loaded.run_hours,
        loaded.learned_hours);
  }
  for (const auto& [run, wall_s] : all) {
    const int digits = loaded.run_hours > 0 ? 4 : 2;
    const auto part = loaded.run_hours > 0
                          ? fmt::format(", {:.3f} of the run", run.hours / loaded.run_hours)
                          : "";
    say("{:<9} {} after {:.{}f} h{}, cost {:.2f}, {}, {:.{}f} h idle, {} computed twice "
        "(simulated in {:.2f} s)\n",
        run.policy, run.is_done ? "done" : fmt::format("{} samples", format_count(run.samples)),
        run.hours, digits, part, run.cost, counted(run.changes, "change"), run.idle_hours, digits,
        format_count(run.lost_samples), wall_s);
  }
}

void run_simulate(SimulateArguments arguments) {
  const auto loaded = load(arguments);
  if (arguments.policies.empty()) {
    arguments.policies = {loaded.run_hours > 0 ? "elastic" : "ours"};
  }
  const auto all = simulated(arguments, loaded);
  if (!arguments.out.empty()) write_simulation_page(arguments.out, arguments.trace, all);
  if (!arguments.json) return print_simulated(all, loaded);
  if (all.size() == 1) {
    say_as_is("{}\n", json_text(to_json(all[0], loaded)));
    return;
  }
  auto runs = ordered_json::array();
  for (const auto& one : all) runs.push_back(to_json(one, loaded));
  say_as_is("{}\n", json_text(ordered_json{{"runs", runs}}));
}

}  // namespace

void add_elastic_simulate(Command group) {
  auto command = group.add_command(
      "simulate", "A run on a cluster whose hosts come and go: its time, cost and changes");
  auto arguments = std::make_shared<SimulateArguments>();
  command
      .add_option("trace", arguments->trace,
                  "lines of JSON: what is trained, then who joins, leaves and fails at which hour, "
                  "prices and batches; or the folder of an elastic run, which is played again")
      .required()
      .type_name("TRACE|RUN_DIR");
  command
      .add_option("--policy", arguments->policies,
                  "fixed: no change; upstream: as JABAS; ours (by default); elastic (of a run by "
                  "default): all that are there; several, separated by commas, are compared")
      .delimiter(',')
      .one_word()
      .type_name("fixed|upstream|ours|elastic");
  command
      .add_option("--first-part", arguments->first_part,
                  "of a run: the part of its samples from whose steps rates are learned")
      .share()
      .type_name("X")
      .show_default();
  command
      .add_option("--save-trace", arguments->save_trace,
                  "of a run: folder for its trace, cluster and rates, to be changed and simulated")
      .type_name("DIR");
  command
      .add_option("--objective", arguments->objective,
                  "of ours: time, cost, or the power of the price, from 0 to 1")
      .type_name("time|cost|0..1")
      .show_default();
  command.add_option("--weight-sync", arguments->weight_sync, "as for solve")
      .type_name("sequential|overlap|recommend")
      .show_default();
  command.add_option("--out", arguments->out, "HTML page with charts to write").type_name("FILE");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea elastic simulate trace.jsonl --policy ours",
                    "fovea elastic simulate trace.jsonl --policy fixed,upstream,ours --out "
                    "simulation.html",
                    "fovea elastic simulate runs/vit --first-part 0.5"});
  command.callback([arguments] { run_simulate(*arguments); });
}

}  // namespace fovea::app
