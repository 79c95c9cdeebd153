#include "fovea/train/run/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/files/atomic_file.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "fovea/optim/schedules.h"
#include "fovea/train/ranks.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/report/report.h"
#include "fovea/train/run/run_length.h"
#include "fovea/train/session.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "weights.safetensors";
constexpr const char* kRecordFile = "phases.json";  // the results of the finished ones
constexpr uint64_t kMaxRecordBytes = 1 << 20;       // some metrics of some phases
constexpr int kMaxRecordDepth = 4;

void check_begun_phases(const TrainConfig& config) {
  const auto& dir = config.run.dir;
  if (!is_run_folder(dir)) return;
  const auto before = load_run_config(dir).phases;
  for (size_t i = 0; i < before.size(); ++i) {
    if (!is_run_folder(phase_folder(dir, i, before[i].name))) continue;
    if (i < config.phases.size() && config.phases[i].name == before[i].name) continue;
    fail<ConfigError>(
        "{}: phase {} of the run there is '{}', here {}; a phase that has begun keeps its place: "
        "choose another run.dir, or leave it as it was",
        dir, i + 1, before[i].name,
        i < config.phases.size() ? "'" + config.phases[i].name + "'" : "there is none");
  }
}

// phases.json.
std::vector<PhaseResult> read_record(const fs::path& folder) {
  std::vector<PhaseResult> results;
  const auto path = folder / kRecordFile;
  if (!is_there(path)) return results;
  try {
    const auto record =
        parse_json(read_file(path.string(), kMaxRecordBytes), path.string(), kMaxRecordDepth);
    for (const auto& item : JsonValue(record, path.string()).items()) {
      PhaseResult result;
      result.name = item.at("name").text();
      result.fit.run_dir = phase_folder(folder.string(), results.size(), result.name);
      result.fit.step = item.at("step").integer();
      result.fit.epoch = item.at("epoch").number();
      for (const auto& [name, value] : item.at("eval").members())
        result.fit.last_eval[name] = value.number();
      results.push_back(std::move(result));
    }
  } catch (const DataError& error) {
    // It saves a look at finished phases, which their own folders tell of too.
    log_warning(
        fmt::format("{}; it is made anew: finished phases are looked at again, none is "
                    "trained again",
                    error.what()));
    results.clear();
  }
  return results;
}

void write_record(const RunFolder& folder, const std::vector<PhaseResult>& results) {
  auto record = nlohmann::json::array();
  for (const auto& [name, fit] : results) {
    record.push_back(
        {{"name", name}, {"step", fit.step}, {"epoch", fit.epoch}, {"eval", fit.last_eval}});
  }
  write_file_atomic(folder.file(kRecordFile), json_text(record, 2) + "\n");
}

// The weights of `before` go into the model of `phase`, by names and shapes.
void check_weights_fit(const Phase& before, const Phase& phase) {
  const auto from = models::build_model(before.config.model, at::kMeta);
  const auto to = models::build_model(phase.config.model, at::kMeta);
  models::load_weights(*to, models::weights_of(*from),
                       fmt::format("phase {}, from the weights of {}", phase.name, before.name),
                       load_options(phase.config.init));
}

void check_can_start(const TrainConfig& config) {
  const auto training = open_training_data(config);
  open_validation_data(config, training.dataset->class_names());
  const auto length = run_length(config.trainer, training.loader->order());
  const optim::Schedule schedule(config.schedule, optim::base_lr(config.optim),
                                 length.first_size_steps);
}

// What would stop one of them at its first step, found before the first phase is paid for.
void check_can_start(const std::vector<Phase>& phases, size_t num_finished) {
  for (size_t i = num_finished; i < phases.size(); ++i) {
    if (phases[i].start_from != "none") check_weights_fit(phases[i - 1], phases[i]);
    check_can_start(phases[i].config);
  }
}

std::string weights_before(const Phase& phase, const Phase& before) {
  if (phase.start_from == "latest") return phase.config.init.weights;
  return checkpoint::Store(before.config.run.dir + "/checkpoints", {}).weights_file("best");
}

// The run's weights are those of its last phase: the same file under another name, or a copy where
// the file system has no such thing.
void link_weights(const fs::path& from, const fs::path& to) {
  const auto temporary = fs::path(to.string() + ".tmp");
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(from, temporary, error);
  if (error) fs::copy_file(from, temporary);
  fs::rename(temporary, to);
}

// Whether a finished phase is to have another length than it had.
bool has_other_length(const Phase& phase) {
  const auto before = load_run_config(phase.config.run.dir).trainer;
  const auto& now = phase.config.trainer;
  return before.max_epochs != now.max_epochs || before.max_steps != now.max_steps;
}

// The last phase may go on longer. Of another one the weights have been handed on.
void go_on_with_last(std::vector<PhaseResult>& results, const std::vector<Phase>& phases) {
  for (size_t i = 0; i < std::min(results.size(), phases.size()); ++i) {
    if (!has_other_length(phases[i])) continue;
    if (i + 1 < phases.size() && is_run_folder(phases[i + 1].config.run.dir)) {
      fail<ConfigError>(
          "phases.{}: phase {} is finished, and {} has begun with its weights; leave its length as "
          "it was, or choose another run.dir",
          i, phases[i].name, phases[i + 1].name);
    }
    results.resize(i);
  }
}

FitResult fit_one(const std::vector<Phase>& phases, size_t index, ProgressLine::Mode progress,
                  parallel::World& world, const RunObserver& observer) {
  const auto& phase = phases[index];
  log_info(fmt::format("phase {} of {}: {}", index + 1, phases.size(), phase.name));
  auto config = phase.config;
  if (phase.start_from != "none") config.init.weights = weights_before(phase, phases[index - 1]);
  return Trainer(config, progress, world).fit(observer);
}

}  // namespace

std::vector<PhaseResult> fit_phases(const TrainConfig& config, ProgressLine::Mode progress,
                                    parallel::World& world, const RunObserver& observer) {
  const auto phases = resolve_phases(config);
  check_same_config(config, world);
  const bool is_first = world.is_first();
  const auto role = is_first ? FolderRole::kOwner : FolderRole::kGuest;
  const fs::path run_dir = config.run.dir;
  check_begun_phases(config);
  check_can_start(phases, read_record(run_dir).size());
  RunFolder folder(config, role);
  auto results = read_record(run_dir);
  for (size_t i = 0; i < std::min(results.size(), phases.size()); ++i) {
    const RunFolder compared(phases[i].config, role);  // refuses another config
  }
  go_on_with_last(results, phases);
  folder.write_config(config);
  for (size_t i = results.size(); i < phases.size(); ++i) {
    results.push_back({phases[i].name, fit_one(phases, i, progress, world, observer)});
    if (const auto& fit = results.back().fit; fit.stopped) {
      folder.mark_stopped(fit.step);
      return results;
    }
    if (!is_first) continue;
    write_record(folder, results);
    write_report({folder.path()});
  }
  if (!results.empty() && is_first) {
    link_weights(fs::path(results.back().fit.run_dir) / kWeightsFile, folder.file(kWeightsFile));
  }
  return results;
}

}  // namespace fovea::train
