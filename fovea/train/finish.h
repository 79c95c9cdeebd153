// What a run leaves for its readers: evaluation.json, machine.json, report.html.
#pragma once

#include <filesystem>

#include "fovea/data/dataset.h"
#include "fovea/train/evaluation_file.h"
#include "fovea/train/task.h"
#include "fovea/train/tasks/classification.h"

namespace fovea::train {

// How many pictures a report shows of each kind.
constexpr int64_t kShownSamples = 24;
constexpr int64_t kShownMistakes = 24;

// The evaluation as a file, with pictures of samples spread evenly over the data and of the wrong
// ones with the highest loss.
EvaluationFile describe_evaluation(const ClassificationEvaluation& evaluation,
                                   const data::Dataset& dataset);

}  // namespace fovea::train
