// mlflow_run.json of a run folder: which of MLflow's runs it is, and what was sent there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "fovea/core/file_lock.h"

namespace fovea::track {

struct TrackedRun {
  std::string mark =
      {};                // drawn once, and a tag of the run there: one that was made is found again
  std::string uri = {};  // of the server, as it was last
  std::string experiment_id = {}, run_id = {};    // empty: it is not made yet
  std::map<std::string, int64_t> sent = {};       // of each split the last step
  std::map<std::string, std::string> files = {};  // size and time of those that were sent
};

inline constexpr const char* kTrackedRunFile = "mlflow_run.json";

// One with a mark alone where there is no such file. Throws DataError where it is damaged.
TrackedRun read_tracked_run(const std::filesystem::path& run_dir);
// Atomic. Throws WriteError.
void write_tracked_run(const std::filesystem::path& run_dir, const TrackedRun& run);

// The one who sends what is in a run folder; others would send it twice.
class SenderLock {
 public:
  // Throws WriteError.
  explicit SenderLock(const std::filesystem::path& run_dir);

  // Whether this is the one; asked again while another process was.
  bool try_lock();

 private:
  std::optional<FileLock> file_;
  bool is_held_ = false;
};

}  // namespace fovea::track
