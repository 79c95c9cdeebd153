#include "fovea/track/mlflow_wire.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "fovea/core/json.h"
#include "fovea/core/text.h"
#include "fovea/core/utf8.h"

namespace fovea::track {
namespace {

using nlohmann::json;

// protobuf writes whole numbers of 64 bits as texts, and so do some servers.
int64_t step_of(const JsonValue& value) {
  if (!value.raw().is_string()) return value.integer();
  const auto text = value.text();
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size()) value.refuse("a whole number");
  return step;
}

std::string text_of(const JsonValue& object, std::string_view key) {
  std::string text;
  object.read(key, text);
  return text;
}

std::string id_of(const JsonValue& object, std::string_view key) {
  const auto value = object.at(key);
  auto id = value.text();
  const auto is_fit = [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; };
  if (id.empty() || id.size() > 100 || !std::all_of(id.begin(), id.end(), is_fit)) {
    value.refuse("an id of letters and digits");
  }
  return id;
}

bool is_deleted(const JsonValue& object) { return text_of(object, "lifecycle_stage") == "deleted"; }

MlflowRun run_of(const JsonValue& value) {
  const auto info = value.at("info");
  MlflowRun run{.id = id_of(info, "run_id"),
                .experiment_id = id_of(info, "experiment_id"),
                .status = text_of(info, "status"),
                .artifact_uri = text_of(info, "artifact_uri"),
                .is_deleted = is_deleted(info)};
  const auto data = value.find("data");
  if (!data) return run;
  if (const auto metrics = data->find("metrics")) {
    for (const auto& metric : metrics->items()) {
      const auto step = metric.find("step");  // left out where it is 0
      run.last_steps[metric.at("key").text()] = step ? step_of(*step) : 0;
    }
  }
  if (const auto params = data->find("params")) {
    for (const auto& param : params->items()) run.params.insert(param.at("key").text());
  }
  return run;
}

}  // namespace

MlflowExperiment read_experiment(std::string_view text, const std::string& source) {
  const auto parsed = parse_json(text, source);
  const auto experiment = JsonValue(parsed, source).at("experiment");
  return {.id = id_of(experiment, "experiment_id"), .is_deleted = is_deleted(experiment)};
}

std::string read_made_experiment(std::string_view text, const std::string& source) {
  const auto parsed = parse_json(text, source);
  return id_of(JsonValue(parsed, source), "experiment_id");
}

MlflowRun read_run(std::string_view text, const std::string& source) {
  const auto parsed = parse_json(text, source);
  return run_of(JsonValue(parsed, source).at("run"));
}

std::optional<MlflowRun> read_first_run(std::string_view text, const std::string& source) {
  const auto parsed = parse_json(text, source);
  const auto runs = JsonValue(parsed, source).find("runs");
  if (!runs || runs->items().empty()) return std::nullopt;
  return run_of(runs->items().front());
}

MlflowRefusal read_refusal(std::string_view text) {
  const auto parsed = parse_json(text);
  const auto read = [&](const char* key) {
    if (!parsed.is_object()) return std::string();
    const auto found = parsed.find(key);
    return found != parsed.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  return {.code = read("error_code"), .message = read("message")};
}

std::string shortened(std::string_view text, size_t max_bytes) {
  size_t end = 0;
  while (end < text.size()) {
    const auto length = std::max<size_t>(utf8_length(text.substr(end)), 1);
    if (end + length > max_bytes) break;
    end += length;
  }
  return std::string(text.substr(0, end));
}

std::string mlflow_name(std::string_view name) {
  std::string out;
  while (!name.empty()) {  // a letter of several bytes is one _
    const auto length = std::max<size_t>(utf8_length(name), 1);
    const bool is_taken =
        is_letter_or_digit(name[0]) || std::string_view("_-./ ").find(name[0]) != name.npos;
    out += is_taken ? name[0] : '_';
    name.remove_prefix(length);
  }
  // It stands for a path there: nothing leads upwards, and no part is empty.
  std::string path;
  for (std::string_view left = out;;) {
    const auto slash = left.find('/');
    const auto part = left.substr(0, slash);
    const bool is_no_part = part.find_first_not_of('.') == part.npos;
    path.append(is_no_part ? "_" : part);
    if (slash == left.npos) break;
    path += '/';
    left.remove_prefix(slash + 1);
  }
  return shortened(path, kMostNameBytes);
}

json metric_json(const std::string& name, double value, int64_t time_ms, int64_t step) {
  json number = value;
  if (std::isnan(value)) number = "NaN";
  if (std::isinf(value)) number = value > 0 ? "Infinity" : "-Infinity";
  return {{"key", name}, {"value", std::move(number)}, {"timestamp", time_ms}, {"step", step}};
}

std::vector<json> pairs_json(const std::map<std::string, std::string>& values,
                             size_t max_value_bytes) {
  std::map<std::string, std::string> by_name;
  for (const auto& [name, value] : values) {
    by_name[mlflow_name(name)] = shortened(value, max_value_bytes);
  }
  std::vector<json> out;
  for (const auto& [name, value] : by_name) out.push_back({{"key", name}, {"value", value}});
  return out;
}

std::vector<json> in_requests(const std::vector<json>& items, size_t max_items) {
  std::vector<json> requests;
  size_t bytes = 0;
  for (const auto& item : items) {
    const auto size = json_text(item).size() + 1;
    if (requests.empty() || requests.back().size() == max_items || bytes + size > kMostBytes) {
      requests.push_back(json::array());
      bytes = 0;
    }
    requests.back().push_back(item);
    bytes += size;
  }
  return requests;
}

std::optional<std::string> artifact_path(const std::string& artifact_uri,
                                         const std::string& server_uri, const std::string& name) {
  constexpr std::string_view kScheme = "mlflow-artifacts:";
  if (!artifact_uri.starts_with(kScheme)) return std::nullopt;
  std::string_view path = std::string_view(artifact_uri).substr(kScheme.size());
  if (path.starts_with("//")) {  // another server may have them
    path.remove_prefix(2);
    auto host = std::string_view(server_uri).substr(server_uri.find("://") + 3);
    host = host.substr(0, host.find('/'));
    const auto slash = path.find('/');
    if (slash == path.npos || (slash != 0 && path.substr(0, slash) != host)) return std::nullopt;
    path.remove_prefix(slash);
  }
  auto out = (path.starts_with('/') ? "" : "/") + std::string(path) + "/" + name;
  const bool leads_upwards = out.find("/../") != out.npos;
  return leads_upwards ? std::nullopt : std::optional(std::move(out));
}

}  // namespace fovea::track
