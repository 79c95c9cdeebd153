#include <algorithm>
#include <chrono>
#include <thread>

#include "fovea/core/json.h"
#include "tests/track/fake_mlflow.h"

namespace fovea::track {
namespace {

using nlohmann::json;

std::string good(const json& body) { return net::whole_answer("200 OK", "", json_text(body)); }

std::string refusal(const std::string& status, const std::string& code) {
  return net::whole_answer(status, "",
                           json_text(json{{"error_code", code}, {"message", "said " + code}}));
}

}  // namespace

FakeMlflow::FakeMlflow()
    : server_(std::make_unique<net::ScriptedServer>(
          [this](const std::string& request) { return answer(request); })) {}

std::vector<FakeMlflow::Run> FakeMlflow::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

std::map<std::string, std::string> FakeMlflow::files() const {
  const std::lock_guard lock(mutex_);
  return files_;
}

size_t FakeMlflow::largest_batch() const {
  const std::lock_guard lock(mutex_);
  return largest_batch_;
}

std::string FakeMlflow::answer(const std::string& request) {
  const auto space = request.find(' ');
  const auto url = request.substr(space + 1, request.find(' ', space + 1) - space - 1);
  const auto body = request.substr(request.find("\r\n\r\n") + 4);
  Mood now = Mood::kWell;
  if (num_well == 0 || num_well == -1) now = mood;
  if (num_well > 0) --num_well;
  if (now == Mood::kError500) return net::whole_answer("500 Internal Server Error", "", "oh no");
  if (now == Mood::kDenied) return net::whole_answer("401 Unauthorized", "", "who are you");
  if (now == Mood::kCut) return {};
  if (now == Mood::kHangs) {
    while (mood == Mood::kHangs) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return {};
  }
  const std::lock_guard lock(mutex_);
  std::string reply;
  if (request.starts_with("PUT ")) {
    files_[url] = body;
    reply = good(json::object());
  } else {
    constexpr std::string_view kApi = "/api/2.0/mlflow/";
    reply = url.starts_with(kApi) ? reply_to(url.substr(kApi.size()), body)
                                  : net::whole_answer("404 Not Found", "", "<html>");
  }
  return now == Mood::kTakenButCut ? "" : reply;
}

std::string FakeMlflow::run_text(size_t index) const {
  const auto& run = runs_[index];
  const auto id = "run" + std::to_string(index);
  json params = json::array(), metrics = json::array();
  for (const auto& [key, value] : run.params) params.push_back({{"key", key}, {"value", value}});
  std::map<std::string, int64_t> last;
  for (const auto& [key, step] : run.metrics) last[key] = std::max(last[key], step);
  for (const auto& [key, step] : last) metrics.push_back({{"key", key}, {"step", step}});
  return json_text(json{{"info",
                         {{"run_id", id},
                          {"experiment_id", "7"},
                          {"status", run.status},
                          {"lifecycle_stage", is_run_deleted ? "deleted" : "active"},
                          {"artifact_uri", "mlflow-artifacts:/7/" + id}}},
                        {"data", {{"params", params}, {"metrics", metrics}}}});
}

void FakeMlflow::log_batch(Run& run, const std::string& body) {
  const auto batch = parse_json(body);
  size_t size = 0;
  for (const auto& metric : batch.value("metrics", json::array())) {
    const std::pair key(metric.at("key").get<std::string>(), metric.at("step").get<int64_t>());
    run.metrics.push_back(key);
    run.values[key] = json_text(metric.at("value"));
    ++size;
  }
  for (const auto& tag : batch.value("tags", json::array())) run.tags[tag.at("key")] = tag["value"];
  for (const auto& param : batch.value("params", json::array())) {
    run.params[param.at("key")] = param["value"];
  }
  largest_batch_ = std::max(largest_batch_, size);
}

std::string FakeMlflow::reply_to(const std::string& call, const std::string& body) {
  const auto parsed = parse_json(body);
  if (call.starts_with("experiments/get-by-name?experiment_name=")) {
    if (!has_experiment_) return refusal("404 Not Found", "RESOURCE_DOES_NOT_EXIST");
    return good({{"experiment",
                  {{"experiment_id", "7"},
                   {"lifecycle_stage", is_experiment_deleted ? "deleted" : "active"}}}});
  }
  if (call == "experiments/create") {
    has_experiment_ = true;
    return good({{"experiment_id", "7"}});
  }
  if (call == "runs/search") {
    json found = json::array();
    const auto filter = parsed.at("filter").get<std::string>();
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (filter.find("'" + runs_[i].tags.at("fovea.run") + "'") != filter.npos) {
        found.push_back(parse_json(run_text(i)));
      }
    }
    return good({{"runs", found}});
  }
  if (call == "runs/create") {
    Run run;
    run.name = parsed.at("run_name");
    run.status = "RUNNING";
    for (const auto& tag : parsed.at("tags")) run.tags[tag.at("key")] = tag.at("value");
    runs_.push_back(std::move(run));
    return good({{"run", parse_json(run_text(runs_.size() - 1))}});
  }
  const auto id = call.starts_with("runs/get?run_id=") ? call.substr(16)
                                                       : parsed.value("run_id", std::string());
  const auto index = id.starts_with("run") ? std::stoul(id.substr(3)) : runs_.size();
  if (index >= runs_.size()) return refusal("404 Not Found", "RESOURCE_DOES_NOT_EXIST");
  if (call == "runs/update") runs_[index].status = parsed.at("status");
  if (call == "runs/log-batch") log_batch(runs_[index], body);
  return good({{"run", parse_json(run_text(index))}});
}

}  // namespace fovea::track
