#include "fovea/track/mlflow_sender.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "fovea/core/files.h"
#include "fovea/core/printable.h"
#include "fovea/core/wall_clock.h"

namespace fovea::track {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "fovea.run";
constexpr const char* kRunning = "RUNNING";

int64_t now_ms() { return static_cast<int64_t>(seconds_since_1970() * 1000); }

const char* status_of(RunEnd end) {
  return end == RunEnd::kFinished ? "FINISHED" : end == RunEnd::kStopped ? "KILLED" : "FAILED";
}

std::string name_of_folder(const fs::path& folder) {
  auto whole = fs::absolute(folder).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const auto name = printable(whole.filename().string());
  const auto above = whole.parent_path();  // a phase lies in the folder of its run
  return is_there(above / "config.yaml") ? printable(above.filename().string()) + "/" + name : name;
}

// Another file, or one that was written since, has another.
std::string stamp_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{} bytes, {}.{:09}", status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

}  // namespace

MlflowSender::MlflowSender(fs::path run_dir, MlflowConfig config, Facts facts, bool is_live,
                           std::function<void(const std::string&)> warn)
    : run_dir_(std::move(run_dir)),
      config_(std::move(config)),
      facts_(std::move(facts)),
      is_live_(is_live),
      warn_(std::move(warn)),
      client_(mlflow_place(config_.uri)),
      lock_(run_dir_),
      file_((run_dir_ / "metrics.jsonl").string()) {
  state_ = read_tracked_run(run_dir_);
}

void MlflowSender::send_metrics() {
  try {
    open();
    do {
      send_lines();
      lines_ = file_.next();
    } while (!lines_.empty());
  } catch (...) {
    is_open_ = false;  // what the server has is not known
    throw;
  }
}

void MlflowSender::open() {
  if (is_open_) return;
  if (!lock_.try_lock()) {
    throw MlflowError(MlflowError::Kind::kAway,
                      fmt::format("{}: another process sends its metrics", run_dir_.string()));
  }
  if (!run_) state_ = read_tracked_run(run_dir_);  // who held the lock may have written it
  find_or_make_run();
  if (run_->is_deleted) {
    throw MlflowError(
        MlflowError::Kind::kRefused,
        fmt::format("MLflow at {}: the run {} is deleted; restore it (mlflow runs restore --run-id "
                    "{}), or remove {} to begin another one",
                    uri(), run_->id, run_->id, (run_dir_ / kTrackedRunFile).string()));
  }
  if (is_live_ && run_->status != kRunning) {
    client_.set_status(run_->id, kRunning, {});
    run_->status = kRunning;
  }
  if (!is_described_) describe_run();
  is_described_ = true;
  is_open_ = true;
}

void MlflowSender::find_or_make_run() {
  try {
    if (!state_.run_id.empty()) run_ = client_.run(state_.run_id);
  } catch (const MlflowError& error) {
    if (error.kind() != MlflowError::Kind::kUnknown) throw;
    throw MlflowError(
        MlflowError::Kind::kRefused,
        fmt::format("{}; expected the server at {}, which had this run; give its address, or "
                    "remove {} to begin another one",
                    error.what(), printable_start(state_.uri, 200),
                    (run_dir_ / kTrackedRunFile).string()));
  }
  if (state_.run_id.empty()) {
    state_.uri = uri();
    write_tracked_run(run_dir_, state_);  // the mark
    const auto experiment = client_.experiment(mlflow_experiment(config_.experiment));
    run_ = client_.find_run(experiment, kMark, state_.mark);
    if (!run_) {
      const auto name = config_.run_name.empty() ? name_of_folder(run_dir_) : config_.run_name;
      run_ = client_.create_run(experiment, name, {{kMark, state_.mark}}, now_ms());
    }
  }
  if (state_.run_id == run_->id && state_.uri == uri()) return;
  state_.uri = uri();
  state_.run_id = run_->id;
  state_.experiment_id = run_->experiment_id;
  write_tracked_run(run_dir_, state_);
}

// Parameters stay as they were sent first, as MLflow has it: a key that a later start gives another
// value is in config.yaml, which is sent with the report.
void MlflowSender::describe_run() {
  auto tags = machine_facts(run_dir_);
  tags.insert(facts_.begin(), facts_.end());
  for (const auto& [name, value] : config_.tags) tags[name] = value;
  Facts params;
  try {
    if (is_there(run_dir_ / "config.yaml")) params = recipe_facts(run_dir_);
  } catch (const Error& error) {
    warn_(fmt::format("{}; its keys are not sent as parameters", error.what()));
  }
  std::erase_if(params,
                [&](const auto& param) { return run_->params.contains(mlflow_name(param.first)); });
  send_pairs("tags", tags, kMostTagBytes, kMostTags);
  send_pairs("params", params, kMostParamBytes, kMostParams);
}

void MlflowSender::send_pairs(const char* key, const Facts& facts, size_t max_value_bytes,
                              size_t max_items) {
  for (auto& request : in_requests(pairs_json(facts, max_value_bytes), max_items)) {
    try {
      client_.log_batch(run_->id, key, std::move(request));
    } catch (const MlflowError& error) {
      // A server with narrower limits: the metrics go on without them.
      if (error.kind() != MlflowError::Kind::kRefused) throw;
      warn_(fmt::format("{}; some {} are left out", error.what(), key));
    }
  }
}

bool MlflowSender::is_sent(const MetricLine& line, const std::string& name) const {
  const auto of_split = state_.sent.find(line.split);
  if (of_split != state_.sent.end() && line.step <= of_split->second) return true;
  if (!run_) return false;
  const auto there = run_->last_steps.find(name);
  return there != run_->last_steps.end() && line.step <= there->second;
}

void MlflowSender::send_lines() {
  if (lines_.empty()) return;
  std::vector<nlohmann::json> values;
  auto sent = state_.sent;
  for (const auto& line : lines_) {
    for (const auto& [name, value] : line.values) {
      if (!is_sent(line, name)) {
        values.push_back(metric_json(name, value, line.time_ms, line.step));
      }
    }
    sent[line.split] = std::max(sent[line.split], line.step);
  }
  for (auto& request : in_requests(values, kMostMetrics)) {
    const auto count = static_cast<int64_t>(request.size());
    client_.log_batch(run_->id, "metrics", std::move(request));
    sent_.values += count;
  }
  lines_.clear();
  if (sent == state_.sent) return;
  state_.sent = std::move(sent);
  write_tracked_run(run_dir_, state_);
}

std::vector<std::string> MlflowSender::files_waiting() const {
  std::vector<std::string> names;
  for (const auto& part : config_.artifacts) {
    if (part == "report") names.insert(names.end(), {"config.yaml", "report.html"});
    if (part == "weights") names.emplace_back("weights.safetensors");
  }
  std::erase_if(names, [&](const std::string& name) {
    const auto stamp = stamp_of(run_dir_ / name);
    const auto sent = state_.files.find(name);
    return stamp.empty() || (sent != state_.files.end() && sent->second == stamp);
  });
  return names;
}

void MlflowSender::send_files() {
  const auto names = files_waiting();
  for (const auto& name : names) {
    const auto stamp = stamp_of(run_dir_ / name);  // one that is written meanwhile goes again
    if (!client_.upload(*run_, (run_dir_ / name).string(), name)) {
      warn_(fmt::format(
          "MLflow at {} keeps artifacts in {}, to which only MLflow's own client writes: {} are "
          "not sent; start the server with --serve-artifacts and --artifacts-destination, or set "
          "log.mlflow.artifacts: none",
          uri(), printable_start(run_->artifact_uri, 200), fmt::join(names, ", ")));
      return;
    }
    state_.files[name] = stamp;
    write_tracked_run(run_dir_, state_);
    ++sent_.files;
  }
}

void MlflowSender::finish(std::optional<RunEnd> end) {
  is_live_ = is_live_ && !end;
  send_metrics();
  if (const auto count = file_.num_damaged(); count > 0) {
    warn_(fmt::format("{}/metrics.jsonl: {} lines are damaged, and are not sent", run_dir_.string(),
                      count));
  }
  try {
    if (end == RunEnd::kFinished) send_files();
    if (end && run_->status != status_of(*end)) {
      client_.set_status(run_->id, status_of(*end), now_ms());
      run_->status = status_of(*end);
    }
  } catch (...) {
    is_open_ = false;
    throw;
  }
}

int64_t MlflowSender::num_waiting() const {
  MetricFile file((run_dir_ / "metrics.jsonl").string());
  int64_t count = 0;
  for (auto lines = file.next(); !lines.empty(); lines = file.next()) {
    for (const auto& line : lines) {
      count += std::count_if(line.values.begin(), line.values.end(),
                             [&](const auto& value) { return !is_sent(line, value.first); });
    }
  }
  return count;
}

}  // namespace fovea::track
