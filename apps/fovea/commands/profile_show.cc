// fovea profile show DIR|CONFIG
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/profile.h"
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

const char* place_text(const std::string& place) {
  return place == "intra" ? "within a node" : "between nodes";
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

html::Markup communication_table(const std::vector<elastic::CommunicationPoint>& points) {
  html::Table table{.caption = "Collectives",
                    .headers = {"Collective", "Place", "Ranks", "Bytes", "ms"},
                    .rows = {},
                    .num_text_columns = 2};
  for (const auto& point : points) {
    table.rows.push_back({html::text(point.collective), html::text(place_text(point.place)),
                          html::text(std::to_string(point.ranks)),
                          html::text(format_bytes(point.bytes)),
                          html::text(format_significant(point.ms))});
  }
  return points.empty() ? html::Markup() : html::table(table);
}

// ms over megabytes, of a place and a number of ranks: a line for each collective.
html::Markup communication_charts(const std::vector<elastic::CommunicationPoint>& points) {
  constexpr double kMegabyte = 1 << 20;
  std::map<std::pair<std::string, int64_t>, std::map<std::string, train::PlotSeries>> groups;
  for (const auto& point : points) {
    auto& line = groups[{point.place, point.ranks}][point.collective];
    line.name = point.collective;
    line.curve.add(point.bytes / kMegabyte, point.ms);
  }
  html::Markup charts;
  for (auto& [group, lines] : groups) {
    std::vector<train::PlotSeries> series;
    for (auto& [collective, line] : lines) {
      line.color = static_cast<int>(series.size());
      series.push_back(std::move(line));
    }
    charts += train::line_chart(
        {.title = fmt::format("ms of a collective among {}, {}", counted(group.second, "rank"),
                              place_text(group.first)),
         .x_label = "MB",
         .from_zero = true},
        series);
  }
  return charts;
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

html::Markup label(const std::string& anchor, double x, double y, const std::string& text) {
  return html::element(
      "text", {{"x", train::coordinate(x)}, {"y", train::coordinate(y)}, {"text-anchor", anchor}},
      html::text(text));
}

// A bar a bucket, with its size where there is room for it.
html::Markup bucket_chart(const std::vector<double>& megabytes) {
  constexpr double kWidth = 560, kHeight = 260, kTop = 24, kBottom = 232, kMostBar = 64;
  constexpr size_t kMostLabels = 14;
  if (megabytes.empty()) return {};
  const double most = *std::max_element(megabytes.begin(), megabytes.end());
  const double pitch = kWidth / static_cast<double>(megabytes.size());
  const double width = std::min(kMostBar, 0.7 * pitch);
  html::Markup drawing;
  for (size_t i = 0; i < megabytes.size(); ++i) {
    const double middle = pitch * (static_cast<double>(i) + 0.5);
    const double height = (kBottom - kTop) * megabytes[i] / most;
    drawing += html::svg_element("rect", {{"class", "f0"},
                                          {"x", train::coordinate(middle - width / 2)},
                                          {"y", train::coordinate(kBottom - height)},
                                          {"width", train::coordinate(width)},
                                          {"height", train::coordinate(height)}});
    if (megabytes.size() > kMostLabels) continue;
    drawing += label("middle", middle, kBottom - height - 6, format_fixed(megabytes[i], 2));
    drawing += label("middle", middle, kBottom + 18, std::to_string(i + 1));
  }
  const auto view = fmt::format("0 0 {} {}", kWidth, kHeight);
  const auto svg = html::element(
      "svg", {{"viewBox", view}, {"role", "img"}, {"aria-label", "sizes of buckets"}}, drawing);
  return html::element("figure", {{"class", "chart"}},
                       html::element("figcaption", html::text("MB of the buckets, in the order of "
                                                              "backward")) +
                           svg);
}

void write_profile_page(const std::string& path, const ProfileSet& profiles) {
  html::Markup tables, charts = bucket_chart(profiles.bucket_megabytes);
  for (const auto& device : profiles.devices) {
    tables += device_table(device);
    charts += pass_chart(device);
  }
  charts += communication_charts(profiles.communication);
  const auto title = "Profiles of " + profiles.model.substr(0, profiles.model.find(' '));
  const auto body = html::body_of_parts(
      title, "What passes take on each kind of device: " + profiles.model, {},
      {{"charts", "Charts", html::element("div", {{"class", "charts"}}, charts)},
       {"devices", "Devices", tables},
       {"communication", "Communication", communication_table(profiles.communication)}},
      "fovea profile show");
  write_file_atomic(path, html::page(title, body));
}

}  // namespace

namespace {

// Of the largest messages: the rate is what tells.
void print_communication(const std::vector<elastic::CommunicationPoint>& points) {
  std::map<std::tuple<std::string, int64_t, std::string>, const elastic::CommunicationPoint*> most;
  for (const auto& point : points) {
    auto& found = most[{point.place, point.ranks, point.collective}];
    if (found == nullptr || found->bytes < point.bytes) found = &point;
  }
  for (const auto& [key, point] : most) {
    say("{} of {} among {}, {}: {:.2f} ms, {}/s\n", point->collective, format_bytes(point->bytes),
        counted(point->ranks, "rank"), place_text(point->place), point->ms,
        format_bytes(1000 * point->bytes / std::max(point->ms, 1e-9)));
  }
}

}  // namespace

ordered_json profiles_json(const ProfileSet& profiles) {
  auto devices = ordered_json::array();
  for (const auto& device : profiles.devices) devices.push_back(to_json(device));
  auto communication = ordered_json::array();
  for (const auto& point : profiles.communication) {
    communication.push_back({{"collective", point.collective},
                             {"place", point.place},
                             {"ranks", point.ranks},
                             {"bytes", point.bytes},
                             {"ms", point.ms}});
  }
  return {{"model", profiles.model},
          {"bucket_megabytes", profiles.bucket_megabytes},
          {"devices", devices},
          {"communication", communication}};
}

void print_profiles(const ProfileSet& profiles) {
  say("model {}, {} in the order of backward: {:.2f} MB\n", profiles.model,
      counted(static_cast<int64_t>(profiles.bucket_megabytes.size()), "bucket"),
      fmt::join(profiles.bucket_megabytes, ", "));
  print_communication(profiles.communication);
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

namespace {

void run_show(const ShowArguments& arguments) {
  const auto profiles = profiles_of(arguments.source);
  if (!arguments.out.empty()) write_profile_page(arguments.out, profiles);
  if (arguments.json) {
    say_as_is("{}\n", json_text(profiles_json(profiles)));
  } else {
    print_profiles(profiles);
  }
}

}  // namespace

void add_profile_show(Command group) {
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
