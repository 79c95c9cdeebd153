// What a run folder has of an elastic run: its changes of members, and how long its steps took.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

// A line of metrics.jsonl of steps that were trained.
struct StepsLine {
  int64_t step = 0;  // after them
  int64_t generation = 0;
  int64_t global_batch = 0;
  double step_s = 0;   // of each
  double time = 0;     // since 1970
  int64_t steps = 0;   // since the line before
  double samples = 0;  // in whole batches, after them
};

// Of a run that was stopped and gone on with: since the last time that it was.
struct Recording {
  std::vector<Event> events;
  std::vector<StepsLine> lines;
  double end = 0;  // since 1970
};

// Throws DataError: run_dir is of no elastic run, or of one that wrote no times, or its files are
// damaged.
Recording read_recording(const std::filesystem::path& run_dir);

// Whether members went without a word.
bool is_failure(const Event& event);

}  // namespace fovea::elastic
