// The folder of one run:
//   config.yaml  metrics.jsonl  train.log  events.out.tfevents.*  evaluation.json  machine.json
//   report.html checkpoints/  weights.safetensors
//   batch_schedule.yaml  (of a run whose batches have changed their size while it ran)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/file_lock.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

inline constexpr const char* kBatchScheduleFile = "batch_schedule.yaml";

// Of several processes that train together one owns the folder; the others read in it. Where
// processes come and go, all of them hold it together, each as an owner: who writes is said
// elsewhere.
enum class FolderRole { kOwner, kGuest, kShared };

class RunFolder {
 public:
  // Creates or opens the folder and holds it until destruction: a second process that wants it gets
  // an Error naming the first. A folder that holds a run of another config is refused with the keys
  // that differ (ConfigError), except for keys that do not change the course of the run: log.*,
  // checkpoint.*, threads, prefetch, how often it evaluates; and for its length.
  // A guest holds and compares nothing.
  explicit RunFolder(const TrainConfig& config, FolderRole role = FolderRole::kOwner);
  // A start that was refused before write_config leaves nothing: what was put into a folder that
  // was empty or not there goes, and with it the folders that were made.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Writes config.yaml, where this process owns the folder: from now on the folder holds this run,
  // and is not stopped. Call when all else of the run stands.
  void write_config(const TrainConfig& config);
  // Writes the file `stopped`, where this process owns the folder: the run was told to stop, its
  // state is saved, and the same command goes on. For those who cannot see the exit code: torchrun
  // takes 75 for a failure like any other.
  void mark_stopped(int64_t step) const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  // The config of the run that it held, of an owner; null where it held none.
  const TrainConfig* config_before() const { return before_ ? &*before_ : nullptr; }

 private:
  void compare_config(const TrainConfig& config) const;

  void make_folder();
  void take_lock(bool is_shared);

  std::filesystem::path path_;
  bool was_empty_ = false;                   // or not there
  std::vector<std::filesystem::path> made_;  // folders, the innermost one first
  std::optional<FileLock> lock_;             // of an owner
  bool is_begun_ = false;
  std::optional<TrainConfig> before_;
};

// The config of the run in `folder`. Throws ConfigError when the folder holds none.
TrainConfig load_run_config(const std::filesystem::path& folder,
                            const std::vector<std::string>& overrides = {});
// That of a run folder, or a recipe: what a command takes that reads either.
TrainConfig load_any_config(const std::string& source,
                            const std::vector<std::string>& overrides = {});

// The keys of a recipe that say what a run trains, with their values, but for those that may differ
// between two starts of one run (see RunFolder) and those that are as by default.
std::string course_of(const TrainConfig& config);

// Whether a process trains in the folder now, which holds its lock as long.
bool is_being_trained(const std::filesystem::path& folder);
// Whether the run in it was told to stop, see mark_stopped.
bool was_stopped(const std::filesystem::path& folder);

// True for a folder with a config.yaml in it.
bool is_run_folder(const std::filesystem::path& path);

}  // namespace fovea::train
