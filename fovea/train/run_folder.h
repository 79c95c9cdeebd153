// The folder of one run:
//   config.yaml  metrics.jsonl  train.log  events.out.tfevents.*  evaluation.json  machine.json
//   report.html checkpoints/  weights.safetensors
#pragma once

#include <filesystem>
#include <string>

#include "fovea/train/config.h"

namespace fovea::train {

class RunFolder {
 public:
  // Creates or opens the folder and holds it until destruction: a second process that wants it gets
  // an Error naming the first. A folder that holds a run of another config is refused with the keys
  // that differ (ConfigError), except for keys that do not change the course of the run: log.*,
  // checkpoint.*, threads, prefetch, how often it evaluates.
  explicit RunFolder(const TrainConfig& config);

  // Writes config.yaml: from now on the folder holds this run. Call when all else of the run
  // stands.
  void write_config(const TrainConfig& config) const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  // True when the folder held this run before.
  bool is_resumed() const { return is_resumed_; }

 private:
  // A lock on the folder that goes with the object, also when the rest of a constructor throws.
  class Lock {
   public:
    explicit Lock(const std::filesystem::path& folder);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int file_;
  };

  void compare_config(const TrainConfig& config) const;

  std::filesystem::path path_;
  Lock lock_;
  bool is_resumed_ = false;
};

// The config of the run in `folder`. Throws ConfigError when the folder holds none.
TrainConfig load_run_config(const std::filesystem::path& folder,
                            const std::vector<std::string>& overrides = {});

// True for a folder with a config.yaml in it.
bool is_run_folder(const std::filesystem::path& path);

}  // namespace fovea::train
