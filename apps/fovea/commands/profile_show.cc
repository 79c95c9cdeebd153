// fovea profile show DIR|CONFIG
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/nearest.h"
#include "fovea/core/number_text.h"
#include "fovea/elastic/solve/profile.h"
#include "fovea/elastic/solve/solve_config.h"
#include "fovea/files/atomic_file.h"
#include "fovea/html/html.h"
#include "fovea/train/report/svg_plot.h"

namespace fovea::app {
namespace {

using elastic::ComputationPoint;
using elastic::DeviceProfile;
using elastic::ProfileSet;
using nlohmann::ordered_json;

struct ShowArguments {
  std::string source;
  std::string out;
  bool json = false;
};

ProfileSet profiles_of(const std::string& source) {
  if (!is_there(source)) {
    fail<ConfigError>("{}: no such file or folder{}", source, or_nearest_path(source));
  }
  if (is_folder(source)) return elastic::read_profiles(source);
  return elastic::load_solve_input(source).profiles;
}

std::string name_of(const DeviceProfile& device) {
  return device.host.empty() ? device.fingerprint
                             : fmt::format("{}: {}", device.host, device.fingerprint);
}

double pass_ms(const ComputationPoint& point) {
  return point.data_ms + point.forward_ms + point.backward_ms;
}

// Of one worker at a time, by batch; the rest is under `points`.
ordered_json to_json(const DeviceProfile& device) {
  ordered_json batches = ordered_json::array(), data = batches, forward = batches,
               backward = batches, update = batches, points = batches, memory = batches;
  for (const auto& point : device.computation) {
    points.push_back({{"local_batch", point.local_batch},
                      {"concurrent", point.concurrent},
                      {"data_ms", point.data_ms},
                      {"forward_ms", point.forward_ms},
                      {"backward_ms", point.backward_ms},
                      {"update_ms", point.update_ms},
                      {"copy_ms", point.copy_ms}});
    if (point.concurrent != 1) continue;
    batches.push_back(point.local_batch);
    data.push_back(point.data_ms);
    forward.push_back(point.forward_ms);
    backward.push_back(point.backward_ms);
    update.push_back(point.update_ms);
  }
  for (const auto& point : device.memory) {
    memory.push_back(
        {{"local_batch", point.local_batch}, {"max_concurrent", point.max_concurrent}});
  }
  return {{"fingerprint", device.fingerprint},
          {"host", device.host},
          {"batches", batches},
          {"data_ms", data},
          {"forward_ms", forward},
          {"backward_ms", backward},
          {"update_ms", update},
          {"memory_bytes", device.memory_bytes},
          {"memory", memory},
          {"points", points}};
}

ordered_json to_json(const ProfileSet& profiles) {
  auto devices = ordered_json::array();
  for (const auto& device : profiles.devices) devices.push_back(to_json(device));
  return {{"model", profiles.model},
          {"bucket_megabytes", profiles.bucket_megabytes},
          {"devices", devices}};
}

void print_profiles(const ProfileSet& profiles) {
  say("model {}, {} in the order of backward: {:.2f} MB\n", profiles.model,
      counted(static_cast<int64_t>(profiles.bucket_megabytes.size()), "bucket"),
      fmt::join(profiles.bucket_megabytes, ", "));
  for (const auto& device : profiles.devices) {
    say("{} ({})\n", name_of(device), format_bytes(static_cast<double>(device.memory_bytes)));
    say("  {:>7} {:>10} {:>9} {:>9} {:>9} {:>9} {:>10} {:>5}\n", "batch", "at a time", "data ms",
        "forward", "backward", "update", "samples/s", "fits");
    for (const auto& point : device.computation) {
      const auto samples = static_cast<double>(point.local_batch * point.concurrent);
      say("  {:>7} {:>10} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>10.1f} {:>5}\n", point.local_batch,
          point.concurrent, point.data_ms, point.forward_ms, point.backward_ms, point.update_ms,
          1000 * samples / pass_ms(point), device.max_concurrent(point.local_batch));
    }
  }
}

html::Markup device_table(const DeviceProfile& device) {
  html::Table table{.caption = name_of(device),
                    .headers = {"Batch", "At a time", "Data ms", "Forward ms", "Backward ms",
                                "Update ms", "Samples/s", "Fit in memory"},
                    .rows = {}};
  for (const auto& point : device.computation) {
    const auto samples = static_cast<double>(point.local_batch * point.concurrent);
    table.rows.push_back({html::text(std::to_string(point.local_batch)),
                          html::text(std::to_string(point.concurrent)),
                          html::text(format_fixed(point.data_ms, 2)),
                          html::text(format_fixed(point.forward_ms, 2)),
                          html::text(format_fixed(point.backward_ms, 2)),
                          html::text(format_fixed(point.update_ms, 2)),
                          html::text(format_fixed(1000 * samples / pass_ms(point), 1)),
                          html::text(std::to_string(device.max_concurrent(point.local_batch)))});
  }
  return html::table(table);
}

// ms of a pass over its batch: a line for each number of workers at a time.
html::Markup pass_chart(const DeviceProfile& device) {
  std::vector<train::PlotSeries> series;
  std::set<int64_t> concurrent;
  for (const auto& point : device.computation) concurrent.insert(point.concurrent);
  for (const auto n : concurrent) {
    train::PlotSeries line{.name = fmt::format("{} at a time", n),
                           .curve = {},
                           .color = static_cast<int>(series.size())};
    for (const auto& point : device.computation) {
      if (point.concurrent != n) continue;
      line.curve.add(static_cast<double>(point.local_batch), pass_ms(point));
    }
    series.push_back(std::move(line));
  }
  return train::line_chart({.title = "ms of a pass, " + name_of(device),
                            .x_label = "samples of a worker",
                            .from_zero = true},
                           series);
}

html::Markup bucket_chart(const std::vector<double>& megabytes) {
  train::PlotSeries line{.name = "MB", .curve = {}};
  for (size_t i = 0; i < megabytes.size(); ++i) {
    line.curve.add(static_cast<double>(i + 1), megabytes[i]);
  }
  return train::line_chart(
      {.title = "Buckets, in the order of backward", .x_label = "bucket", .from_zero = true},
      {line});
}

void write_profile_page(const std::string& path, const ProfileSet& profiles) {
  html::Markup tables, charts = bucket_chart(profiles.bucket_megabytes);
  for (const auto& device : profiles.devices) {
    tables += device_table(device);
    charts += pass_chart(device);
  }
  const auto title = "Profiles of " + profiles.model;
  const auto body = html::body_of_parts(
      title, "What passes of the model take on each kind of device.", {},
      {{"charts", "Charts", html::element("div", {{"class", "charts"}}, charts)},
       {"devices", "Devices", tables}},
      "fovea profile show");
  write_file_atomic(path, html::page(title, body));
}

void run_show(const ShowArguments& arguments) {
  const auto profiles = profiles_of(arguments.source);
  if (!arguments.out.empty()) write_profile_page(arguments.out, profiles);
  if (arguments.json) {
    say_as_is("{}\n", json_text(to_json(profiles)));
  } else {
    print_profiles(profiles);
  }
}

}  // namespace

void add_profile(Command app) {
  auto group = app.add_command("profile", "What steps of a model take on kinds of devices");
  group.require_command();
  group.examples({"fovea profile show profiles"});
  auto command = group.add_command("show", "Tables of measured passes, and charts of them");
  auto arguments = std::make_shared<ShowArguments>();
  command
      .add_option("source", arguments->source,
                  "folder of profiles, or a config that names one, such as JABAS's JSON")
      .required()
      .type_name("DIR|CONFIG");
  command.add_option("--out", arguments->out, "HTML page with charts to write").type_name("FILE");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea profile show profiles", "fovea profile show jabas.json --out p.html"});
  command.callback([arguments] { run_show(*arguments); });
}

}  // namespace fovea::app
