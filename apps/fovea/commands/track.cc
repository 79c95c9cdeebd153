// fovea track RUN_DIR... [--uri URL] [--experiment NAME]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/track/mlflow_sender.h"
#include "fovea/train/recipe/phase_configs.h"
#include "fovea/train/recipe/run_folder.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

// How often a server that is away is asked for a run that is over: some 7 s in all.
constexpr int kMostTries = 4;

struct TrackArguments {
  std::vector<std::string> run_dirs;
  std::string uri, experiment, run_name;
  std::vector<std::string> artifacts;
  bool json = false;
};

// Of a run that nobody trains. Its weights are written at its end alone; a run that went on from
// there and was lost has newer metrics.
track::RunEnd end_of(const fs::path& folder) {
  if (train::was_stopped(folder)) return track::RunEnd::kStopped;
  std::error_code no_weights, no_metrics;
  const auto weights = fs::last_write_time(folder / "weights.safetensors", no_weights);
  const auto metrics = fs::last_write_time(folder / "metrics.jsonl", no_metrics);
  const bool is_finished = !no_weights && !no_metrics && weights >= metrics;
  return is_finished ? track::RunEnd::kFinished : track::RunEnd::kFailed;
}

track::MlflowConfig mlflow_config(const std::string& folder, const TrackArguments& arguments) {
  auto config = train::load_run_config(folder).log.mlflow.value_or(track::MlflowConfig{});
  if (!arguments.uri.empty()) config.uri = arguments.uri;
  if (!arguments.experiment.empty()) config.experiment = arguments.experiment;
  if (!arguments.run_name.empty()) config.run_name = arguments.run_name;
  if (!arguments.artifacts.empty()) config.artifacts = arguments.artifacts;
  if (config.uri.empty()) config.uri = track::read_tracked_run(folder).uri;
  return config;
}

void wait_or_stop(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (StopSignals::received() != 0) throw ExitRequest{static_cast<int>(ExitCode::kStopped)};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// False: the server is away.
bool send_round(track::MlflowSender& sender, std::optional<track::RunEnd> end, int failures) {
  try {
    end ? sender.finish(end) : sender.send_metrics();
    return true;
  } catch (const track::MlflowError& error) {
    if (error.kind() != track::MlflowError::Kind::kAway) throw;
    if (end && failures + 1 == kMostTries) {
      fail<DataError>("{}; {} values wait, and the same command goes on with them", error.what(),
                      sender.num_waiting());
    }
    if (failures == 0) log_warning(fmt::format("{}; it is asked again", error.what()));
    return false;
  }
}

// To the end of the run.
void follow(track::MlflowSender& sender, const fs::path& folder) {
  constexpr std::chrono::seconds kEvery{2}, kFirstRetry{1};
  for (int failures = 0;;) {
    const bool goes_on = train::is_being_trained(folder);  // before what it has written is read
    const auto end = goes_on ? std::nullopt : std::optional(end_of(folder));
    if (send_round(sender, end, failures)) {
      if (!goes_on) return;
      failures = 0;
      wait_or_stop(kEvery);
    } else {
      wait_or_stop(kFirstRetry * (1 << std::min(failures, 5)));
      ++failures;
    }
  }
}

nlohmann::ordered_json track_folder(const std::string& folder, const TrackArguments& arguments) {
  const auto config = mlflow_config(folder, arguments);
  if (!is_there(fs::path(folder) / "metrics.jsonl")) {
    fail<DataError>(
        "{}: no metrics.jsonl in it; expected the folder of a run that has begun, as `fovea train` "
        "makes it",
        folder);
  }
  track::MlflowSender sender(folder, config, {}, false, log_warning);
  follow(sender, folder);
  const auto& sent = sender.sent();
  if (!arguments.json) {
    say("{}: {} and {} sent\n  {}\n", folder, counted(sent.values, "value"),
        counted(sent.files, "file"), sender.page());
  }
  return {
      {"run_dir", folder}, {"page", sender.page()}, {"values", sent.values}, {"files", sent.files}};
}

void run(const TrackArguments& arguments) {
  const StopSignals signals;
  auto runs = nlohmann::ordered_json::array();
  for (const auto& run_dir : arguments.run_dirs) {
    auto folders = train::begun_phase_folders(run_dir);
    if (folders.empty()) folders.push_back(run_dir);
    for (const auto& folder : folders) runs.push_back(track_folder(folder, arguments));
  }
  if (arguments.json) say_as_is("{}\n", json_text(nlohmann::ordered_json{{"runs", runs}}));
}

}  // namespace

void add_track(Command app) {
  auto command = app.add_command(
      "track", "Send the metrics of runs to an MLflow server: what waits, or all of them");
  auto arguments = std::make_shared<TrackArguments>();
  command.add_option("run_dirs", arguments->run_dirs, "run folders; one that trains is followed")
      .required()
      .type_name("RUN_DIR...");
  command
      .add_option("--uri", arguments->uri,
                  "of the server; by default the recipe's log.mlflow.uri, the one that had the run "
                  "before, or MLFLOW_TRACKING_URI")
      .type_name("URL");
  command
      .add_option("--experiment", arguments->experiment,
                  "of a run that is not there yet; by default as log.mlflow.experiment")
      .type_name("NAME");
  command.add_option("--run-name", arguments->run_name, "likewise").type_name("NAME");
  command
      .add_option(
          "--artifacts", arguments->artifacts,
          "what is sent besides metrics, between commas; by default as log.mlflow.artifacts")
      .delimiter(',')
      .one_word()
      .one_of({"report", "weights", "none"});
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea track runs/flowers",
                    "fovea track runs/low_lr runs/high_lr --uri http://127.0.0.1:5000 --experiment "
                    "flowers"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
