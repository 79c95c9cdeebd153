// The parts that the pages are made of; each is empty where the run has nothing to show there.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fovea/html/html.h"
#include "fovea/train/report/run_data.h"

namespace fovea::train {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();  // a number that is not known

// What a page says about a run at a glance, from what is there.
struct RunSummary {
  double top1, top5, val_loss;       // of the last evaluation; percent
  double best_top1, best_top1_step;  // of all evaluations
  double train_loss;                 // mean of the last logged lines
  double images_per_second;          // median
  double data_wait;                  // median share
  double memory_bytes;               // highest
  double seconds;                    // from start to end, or NaN
};
RunSummary summarize(const RunData& run);

// Charts of one run, or of several overlaid: `runs` share each axis.
html::Markup learning_part(std::span<const RunData> runs);
html::Markup speed_part(std::span<const RunData> runs);

html::Markup class_part(const EvaluationFile& evaluation);
html::Markup confusion_part(const EvaluationFile& evaluation);
html::Markup samples_part(const EvaluationFile& evaluation);
html::Markup mistakes_part(const EvaluationFile& evaluation);
html::Markup pictures_part(const EvaluationFile& evaluation);

html::Markup config_part(const RunData& run);
html::Markup members_part(const RunData& run);
html::Markup bad_samples_part(const RunData& run);
html::Markup machine_part(const RunData& run);
html::Markup notes_part(const std::vector<std::string>& notes);

}  // namespace fovea::train
