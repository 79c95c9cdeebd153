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
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/nearest.h"
#include "fovea/core/number_text.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/solve/simulation.h"
#include "fovea/files/atomic_file.h"
#include "fovea/html/html.h"
#include "fovea/train/report/svg_plot.h"

namespace fovea::app {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kMaxTraceBytes = uint64_t{64} << 20;
constexpr size_t kMaxPathBytes = 4000;

struct SimulateArguments {
  std::string trace;
  std::vector<std::string> policies;
  std::string objective = "time";
  std::string weight_sync = "recommend";
  std::string out;
  bool json = false;
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

std::vector<Simulated> simulated(const SimulateArguments& arguments) {
  if (!is_there(arguments.trace)) {
    fail<ConfigError>("{}: no such file{}", arguments.trace, or_nearest_path(arguments.trace));
  }
  const auto text = read_file(arguments.trace, kMaxTraceBytes);
  const auto head = elastic::parse_trace_head(text.substr(0, text.find('\n')), arguments.trace);
  const auto input = elastic::load_solve_input(config_of(arguments.trace, head.config));
  const auto trace = elastic::parse_trace(text, arguments.trace, input.cluster);
  std::vector<Simulated> all;
  for (const auto& policy : arguments.policies) {
    const auto start = std::chrono::steady_clock::now();
    auto run = elastic::simulate(
        trace, input.cluster, input.profiles, input.config.alloc_unit(),
        {.policy = policy,
         .cost_weight = cost_weight_of(arguments.objective),
         .sync = elastic::sync_of(arguments.weight_sync, input.profiles.bucket_megabytes)});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    all.push_back({std::move(run), took.count()});
  }
  return all;
}

ordered_json to_json(const Simulated& simulated) {
  const auto& run = simulated.run;
  return {{"policy", run.policy},
          {"hours", run.hours},
          {"cost", run.cost},
          {"changes", run.changes},
          {"wall_s", simulated.wall_s},
          {"is_done", run.is_done},
          {"samples", run.samples},
          {"lost_samples", run.lost_samples},
          {"idle_hours", run.idle_hours}};
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
  for (const auto& one : all) {
    series.push_back({.name = one.run.policy,
                      .curve = curve_of(one.run, between, value),
                      .color = static_cast<int>(series.size())});
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
                {{.name = "there", .curve = there}}) +
          chart("Images per second", all, Between::kStep,
                [](const auto& point) { return point.images_per_second; }));
  const auto name = std::filesystem::path(trace).filename().string();
  const auto body = html::body_of_parts(
      name, "A run on a cluster whose hosts come and go, as profiles predict it.", {},
      {{"runs", "Runs", simulation_table(all)}, {"charts", "Over time", charts}},
      "fovea elastic simulate");
  write_file_atomic(path, html::page(name, body));
}

void print_simulated(const std::vector<Simulated>& all) {
  for (const auto& [run, wall_s] : all) {
    say("{:<9} {} after {:.2f} h, cost {:.2f}, {}, {:.2f} h idle, {} computed twice "
        "(simulated in {:.2f} s)\n",
        run.policy, run.is_done ? "done" : fmt::format("{} samples", format_count(run.samples)),
        run.hours, run.cost, counted(run.changes, "change"), run.idle_hours,
        format_count(run.lost_samples), wall_s);
  }
}

void run_simulate(SimulateArguments arguments) {
  if (arguments.policies.empty()) arguments.policies = {"ours"};
  const auto all = simulated(arguments);
  if (!arguments.out.empty()) write_simulation_page(arguments.out, arguments.trace, all);
  if (!arguments.json) return print_simulated(all);
  if (all.size() == 1) {
    say_as_is("{}\n", json_text(to_json(all[0])));
    return;
  }
  auto runs = ordered_json::array();
  for (const auto& one : all) runs.push_back(to_json(one));
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
                  "and prices")
      .required()
      .type_name("TRACE");
  command
      .add_option("--policy", arguments->policies,
                  "fixed: no change; upstream: as JABAS; ours (by default); several, separated by "
                  "commas, are compared")
      .delimiter(',')
      .one_word()
      .type_name("fixed|upstream|ours");
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
                    "simulation.html"});
  command.callback([arguments] { run_simulate(*arguments); });
}

}  // namespace fovea::app
