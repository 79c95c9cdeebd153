#include "fovea/train/report/run_data.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/config/node.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/files/lines.h"
#include "fovea/train/run/metrics_writer.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxSplits = 16, kMaxMetrics = 256;  // a damaged file may name any number

// JSON knows no NaN; some writers put it down all the same. Outside of strings such words become
// null.
std::string with_null_for_nan(const std::string& line) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && (i == 0 || line[i - 1] != '\\')) in_string = !in_string;
    bool was_replaced = false;
    for (const std::string_view word :
         {"-Infinity", "Infinity", "-inf", "inf", "-NaN", "NaN", "-nan", "nan"}) {
      if (in_string || line.compare(i, word.size(), word) != 0) continue;
      out += "null";
      i += word.size() - 1;
      was_replaced = true;
      break;
    }
    if (!was_replaced) out += line[i];
  }
  return out;
}

// An object, or a discarded value. Deep nesting would cost the parser nothing, but takes memory.
json parse_line(const std::string& line) {
  constexpr int kMaxLineDepth = 4;
  auto value = parse_json(line, kMaxLineDepth);
  return value.is_discarded() ? parse_json(with_null_for_nan(line), kMaxLineDepth) : value;
}

bool add_line(RunMetrics& metrics, const json& line) {
  if (!line.is_object()) return false;
  const auto step = line.find("step");
  if (step == line.end() || !step->is_number()) return false;
  const auto name = line.find("split");
  const std::string split =
      name != line.end() && name->is_string() ? name->get<std::string>() : "train";
  if (!metrics.curves.contains(split) && metrics.curves.size() >= kMaxSplits) return false;
  auto& curves = metrics.curves[split];
  const double at = step->get<double>();
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || !(value.is_number() || value.is_null())) continue;
    if (!curves.contains(key) && curves.size() >= kMaxMetrics) return false;
    auto& curve = curves[key];
    while (curve.size() > 0 && curve.x.back() >= at) {
      curve.x.pop_back();
      curve.y.pop_back();
    }
    curve.add(at, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  metrics.last_step = at;
  const auto epoch = line.find("epoch");
  if (epoch != line.end() && epoch->is_number()) metrics.last_epoch = epoch->get<double>();
  return true;
}

void flatten(const ConfigNode& node, const std::string& path,
             std::map<std::string, std::string>& out) {
  const bool is_map = node.kind == ConfigNode::Kind::kMap;
  if (!is_map || node.children.empty()) {
    out[path] = node.kind == ConfigNode::Kind::kScalar ? node.scalar : emit_yaml_flow(node);
    return;
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    flatten(node.children[i], path.empty() ? node.keys[i] : path + "." + node.keys[i], out);
  }
}

void read_config(RunData& run) {
  const auto path = run.folder / "config.yaml";
  if (!is_there(path)) {
    run.notes.push_back("config.yaml is missing: the settings of the run are not shown.");
    return;
  }
  try {
    run.config = read_file(path.string(), kMaxConfigBytes);
    flatten(parse_config_yaml(run.config, "config.yaml"), "", run.config_values);
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("config.yaml cannot be read: {}", error.what()));
  }
}

void read_metrics_file(RunData& run) {
  const auto path = run.folder / "metrics.jsonl";
  if (!is_there(path)) {
    run.notes.push_back("metrics.jsonl is missing: there are no curves.");
    return;
  }
  try {
    run.metrics = read_metrics(path);
  } catch (const DataError& error) {
    run.notes.push_back(fmt::format("metrics.jsonl cannot be read: {}", error.what()));
    return;
  }
  if (!run.metrics.fault.empty()) {
    run.notes.push_back(
        fmt::format("What follows in metrics.jsonl is left out: {}.", run.metrics.fault));
  }
  if (run.metrics.num_lines == 0) {
    run.notes.push_back("metrics.jsonl holds no line yet: there are no curves.");
  }
  if (run.metrics.num_damaged > 0) {
    run.notes.push_back(fmt::format("{} of {} lines of metrics.jsonl are damaged and left out.",
                                    run.metrics.num_damaged,
                                    run.metrics.num_lines + run.metrics.num_damaged));
  }
  const auto* loss = run.metrics.find("train", "loss");
  const auto broken = loss ? broken_points(*loss) : std::vector<double>{};
  if (!broken.empty()) {
    run.notes.push_back(fmt::format(
        "The training loss is not finite at {} logged step{}, first at step {:.0f}: the run "
        "diverged. A lower optim.lr, more schedule.warmup_steps or trainer.max_grad_norm help.",
        broken.size(), broken.size() == 1 ? "" : "s", broken.front()));
  }
}

// Reads `file` of the folder with `reader` where it is there; notes what is wrong with it.
template <class Reader>
auto read_optional(RunData& run, const char* file, const char* without, Reader reader)
    -> std::optional<decltype(reader(fs::path{}))> {
  const auto path = run.folder / file;
  if (!is_there(path)) {
    run.notes.push_back(fmt::format("{} is not there: {}", file, without));
    return std::nullopt;
  }
  try {
    return reader(path);
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("{} cannot be read: {}", file, error.what()));
    return std::nullopt;
  }
}

}  // namespace

const Curve* RunMetrics::find(const std::string& split, const std::string& metric) const {
  const auto of_split = curves.find(split);
  if (of_split == curves.end()) return nullptr;
  const auto curve = of_split->second.find(metric);
  return curve == of_split->second.end() ? nullptr : &curve->second;
}

RunMetrics read_metrics(const fs::path& file) {
  RunMetrics metrics;
  LineReader lines(file.string(), kMaxMetricsLine);
  try {
    for (std::string line; lines.next(line);) {
      if (line.empty()) continue;
      if (add_line(metrics, parse_line(line))) {
        ++metrics.num_lines;
      } else if (lines.is_whole()) {  // else the writer was stopped in the middle
        ++metrics.num_damaged;
      }
    }
  } catch (const DataError& error) {
    metrics.fault = error.what();
  }
  return metrics;
}

RunData read_run(const fs::path& folder) {
  RunData run;
  run.folder = folder;
  run.name = fs::absolute(folder).lexically_normal().filename().string();
  if (run.name.empty())
    run.name = fs::absolute(folder).lexically_normal().parent_path().filename().string();
  if (!is_there(folder / "config.yaml") && !is_there(folder / "metrics.jsonl")) {
    fail<DataError>(
        "{}: neither config.yaml nor metrics.jsonl in it; expected a run folder that `fovea train` "
        "made",
        folder.string());
  }
  read_config(run);
  read_metrics_file(run);
  run.evaluation = read_optional(run, "evaluation.json",
                                 "the run has not been evaluated yet, so there is no accuracy by "
                                 "class and no picture.",
                                 read_evaluation_file);
  run.machine = read_optional(run, "machine.json", "the machine is not known.", read_machine_file);
  try {
    run.bad_samples = read_bad_samples_file(folder / "bad_samples.json");
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("bad_samples.json cannot be read: {}", error.what()));
  }
  try {
    const auto events = folder / "events.jsonl";
    if (is_there(events)) run.member_changes = read_member_changes(events);
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("events.jsonl cannot be read: {}", error.what()));
  }
  return run;
}

}  // namespace fovea::train
