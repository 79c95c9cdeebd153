// Whether each sample was trained on once an epoch, from what the workers of a run wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fovea::elastic {

struct EpochAudit {
  int64_t epoch = 0;
  int64_t samples = 0;  // that were seen, each counted once
  int64_t missing = 0;
  int64_t doubled = 0;   // seen more than once
  bool is_whole = true;  // false: the run has not come to its end; nothing is missing behind there
};

struct Audit {
  int64_t num_samples = 0;  // of an epoch
  int64_t num_generations = 0;
  int64_t steps_lost = 0;
  std::vector<EpochAudit> epochs{};

  bool is_ok() const;
};

// Reads RUN_DIR/samples/*.jsonl and RUN_DIR/events.jsonl. What a generation did at a step that a
// later one did too, or at one behind that, was lost with it and does not count. num_samples: of an
// epoch; nothing: the largest id that was seen, and one. Of the last step the number of samples is
// held against that of the step before, in the same generation. A line that a kill cut short ends
// its file. Throws DataError: no such files, or lines that are none.
Audit audit_run(const std::filesystem::path& run_dir, std::optional<int64_t> num_samples);

}  // namespace fovea::elastic
