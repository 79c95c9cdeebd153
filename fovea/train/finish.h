// What a run leaves for its readers: evaluation.json and machine.json.
#pragma once

#include <filesystem>

#include "fovea/data/dataset.h"
#include "fovea/train/config.h"
#include "fovea/train/evaluation_file.h"
#include "fovea/train/machine.h"
#include "fovea/train/task.h"
#include "fovea/train/tasks/classification.h"
#include "fovea/train/tensor_batch.h"

namespace fovea::train {

// How many pictures a report shows of each kind.
constexpr int64_t kShownSamples = 24;
constexpr int64_t kShownMistakes = 24;
// Longest side of such a picture, in pixels: a report stays small, whatever the images are.
constexpr int64_t kPictureSide = 160;

// The evaluation as a file, with pictures of samples spread evenly over the data and of the wrong
// ones with the highest loss.
EvaluationFile describe_evaluation(const ClassificationEvaluation& evaluation,
                                   const data::Dataset& dataset);

// machine.json while a run goes on: where and how it was started, and, from its destruction on,
// when it ended. A run that goes on keeps its first start.
class RunClock {
 public:
  RunClock(std::filesystem::path path, const ComputeOptions& compute);
  ~RunClock();
  RunClock(const RunClock&) = delete;
  RunClock& operator=(const RunClock&) = delete;

 private:
  std::filesystem::path path_;
  MachineFile file_;
};

}  // namespace fovea::train
