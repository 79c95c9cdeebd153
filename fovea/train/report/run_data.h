// What a run folder holds, read for a report: whatever is there, with notes on what is not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/train/bench/machine.h"
#include "fovea/train/evaluate/evaluation_file.h"
#include "fovea/train/report/curve.h"
#include "fovea/train/report/member_changes.h"
#include "fovea/train/run/bad_samples_file.h"

namespace fovea::train {

// metrics.jsonl by columns.
struct RunMetrics {
  // [split][metric], over steps: curves["train"]["loss"].
  std::map<std::string, std::map<std::string, Curve>> curves;
  int64_t num_lines = 0;
  int64_t num_damaged = 0;  // lines that could not be read
  std::string fault;        // why what follows the last line was not read; empty: all was
  double last_step = 0;
  double last_epoch = 0;

  // Null where nothing was logged under these names.
  const Curve* find(const std::string& split, const std::string& metric) const;
};

struct RunData {
  std::filesystem::path folder;
  std::string name;
  std::string config;                                // the text of config.yaml
  std::map<std::string, std::string> config_values;  // "optim.lr" -> "0.001"
  RunMetrics metrics;
  std::optional<EvaluationFile> evaluation;
  std::optional<MachineFile> machine;
  BadSamplesFile bad_samples;
  std::vector<MemberChange> member_changes;  // of an elastic run
  std::vector<std::string> notes;  // for the reader: what is missing, damaged or broke off
};

// Lines of a run that went on from an earlier step stand after the ones they replace: those are
// dropped. A last line that was cut short is not counted as damaged. Throws DataError where there
// is no such file.
RunMetrics read_metrics(const std::filesystem::path& file);

// Reads every file of the folder that is there. Throws DataError where the folder holds neither
// config.yaml nor metrics.jsonl.
RunData read_run(const std::filesystem::path& folder);

}  // namespace fovea::train
