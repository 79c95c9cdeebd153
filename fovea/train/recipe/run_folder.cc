#include "fovea/train/recipe/run_folder.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/core/write_error.h"
#include "fovea/files/atomic_file.h"
#include "fovea/train/recipe/recipe_files.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

// What may change between two starts of one run: it touches no order of samples, and weights and
// losses by rounding at most; but for the run's length, which the schedule may hang on: Trainer
// says so.
constexpr std::string_view kFreeKeys[] = {"run.dir",
                                          "log.",
                                          "checkpoint.",
                                          "data.batch_schedule",  // but what has had its effect
                                          "data.threads",
                                          "data.prefetch",
                                          "data.bad_samples.",
                                          "device.attention",
                                          "device.recompute_cheap",
                                          "device.threads",
                                          "trainer.concurrent_passes",
                                          "trainer.eval_every_",
                                          "trainer.max_epochs",
                                          "trainer.max_steps",
                                          "init.weights",
                                          "init.optimizer",
                                          "model.pretrained",
                                          "init.step",
                                          "launch.",
                                          "elastic.",
                                          "parallel.dp_",
                                          "parallel.zero",
                                          "parallel.shard_outer",
                                          "parallel.reshard_",
                                          "parallel.min_num_params",
                                          "parallel.cp",
                                          "parallel.tp",
                                          "parallel.sequence_",
                                          "parallel.recompute"};

constexpr const char* kStopped = "stopped";
constexpr const char* kLock = ".lock";

// Of what "elastic." begins: what batches and learning rates follow.
constexpr std::string_view kAdaptiveKeys[] = {
    "elastic.batch_size_", "elastic.similarity_target",   "elastic.metric",
    "elastic.enable_",     "elastic.original_batch_size", "elastic.global_lr_modifier"};

bool is_free(std::string_view key) {
  const auto is_start = [&](std::string_view start) { return key.starts_with(start); };
  if (std::any_of(std::begin(kAdaptiveKeys), std::end(kAdaptiveKeys), is_start)) return false;
  return std::any_of(std::begin(kFreeKeys), std::end(kFreeKeys),
                     [&](std::string_view free) { return key.starts_with(free); });
}

// True also of an empty folder, and of one that is not there.
bool holds_only_logs(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = entry->path().filename().string();
    if (name != ".lock" && !name.starts_with("train.rank")) return false;
  }
  return true;
}

}  // namespace

bool is_run_folder(const fs::path& path) {
  return is_folder(path) && is_there(path / "config.yaml");
}

TrainConfig load_run_config(const fs::path& folder, const std::vector<std::string>& overrides) {
  if (!is_run_folder(folder)) {
    fail<ConfigError>("{}: no config.yaml in it; expected a run folder that `fovea train` made",
                      folder.string());
  }
  auto config = load_config<TrainConfig>((folder / "config.yaml").string(), overrides);
  config.run.dir = folder.string();
  return config;
}

TrainConfig load_any_config(const std::string& source, const std::vector<std::string>& overrides) {
  if (!is_there(source)) {
    fail<ConfigError>("{}: neither a recipe nor a run folder is there{}", source,
                      or_nearest_recipe(source));
  }
  return is_folder(source) ? load_run_config(source, overrides)
                           : load_config<TrainConfig>(source, overrides);
}

std::string course_of(const TrainConfig& config) {
  std::string text;
  for (const auto& change : config_diff(TrainConfig(), config)) {
    if (!is_free(change.key))
      text += fmt::format("{}: {}\n", change.key, change.b.value_or("null"));
  }
  return text;
}

bool is_being_trained(const fs::path& folder) {
  FileLock lock(folder / kLock, O_RDONLY);
  return lock.is_open() && !lock.try_lock();
}

bool was_stopped(const fs::path& folder) { return is_there(folder / kStopped); }

void RunFolder::take_lock(bool is_shared) {
  const auto name = file(kLock).string();
  check_output_file(name);
  lock_.emplace(name, O_CREAT | O_RDWR);
  if (!lock_->is_open()) {
    fail<WriteError>("{}: cannot be written: {}; choose another run.dir", name,
                     std::strerror(errno));
  }
  if (lock_->try_lock(is_shared)) return;
  fail<Error>(
      "{}: another process is training in this run folder; wait for it, stop it, or choose another "
      "run.dir",
      path_.string());
}

RunFolder::RunFolder(const TrainConfig& config, FolderRole role) : path_(config.run.dir) {
  if (role == FolderRole::kGuest) {
    fs::create_directories(path_);  // for its log
    return;
  }
  make_folder();
  take_lock(role == FolderRole::kShared);
  if (!is_run_folder(path_)) return;
  before_ = load_run_config(path_);
  compare_config(config);
}

// Of several processes the others may have come first, each for its log.
void RunFolder::make_folder() {
  std::error_code error;
  for (auto folder = fs::absolute(path_).lexically_normal();
       folder.has_relative_path() && !is_there(folder); folder = folder.parent_path()) {
    if (folder.has_filename()) made_.push_back(folder);
  }
  was_empty_ = !made_.empty() || holds_only_logs(path_);
  fs::create_directories(path_, error);
  if (!error) return;
  fail<WriteError>("run.dir: cannot make the folder {}: {}; choose another run.dir", path_.string(),
                   error.message());
}

RunFolder::~RunFolder() {
  if (!lock_ || is_begun_ || !was_empty_) return;
  std::error_code ignored;
  for (fs::directory_iterator entry(path_, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::error_code stays;
    fs::remove_all(entry->path(), stays);
  }
  for (const auto& folder : made_) fs::remove(folder, ignored);  // where nothing else is in it
}

void RunFolder::write_config(const TrainConfig& config) {
  if (!lock_) return;
  fs::remove(file(kStopped));
  write_file_atomic(file("config.yaml"), dump_config(config));
  is_begun_ = true;
}

void RunFolder::mark_stopped(int64_t step) const {
  if (lock_) write_file_atomic(file(kStopped), fmt::format("step {}\n", step));
}

void RunFolder::compare_config(const TrainConfig& config) const {
  const auto& before = *before_;
  // Each phase compares its own config, in its own folder; one that has not begun may change.
  if (!before.phases.empty() && !config.phases.empty()) return;
  std::vector<std::string> changes;
  for (const auto& change : config_diff(before, config)) {
    if (!is_free(change.key)) {
      changes.push_back(fmt::format("  {}: {} there, {} here", change.key,
                                    change.a.value_or("nothing"), change.b.value_or("nothing")));
    }
  }
  if (changes.empty()) return;
  fail<ConfigError>(
      "{}: the folder holds a run of another config, which cannot go on with this one:\n{}\n"
      "Choose another run.dir, or start from its weights with init.weights={}",
      path_.string(), fmt::join(changes, "\n"), file("weights.safetensors").string());
}

}  // namespace fovea::train
