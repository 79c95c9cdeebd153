// evaluation.json of a run folder: what the last evaluation found, for the report and for scripts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace fovea::train {

// How many samples of class `label` were taken for class `predicted`; pairs that never came up are
// left out, so a thousand classes cost no million numbers.
struct ConfusionCount {
  int64_t label = 0;
  int64_t predicted = 0;
  int64_t count = 0;
};

struct ClassScore {
  int64_t label = 0;
  double score = 0;  // probability
};

struct SamplePrediction {
  int64_t index = -1;       // in the data set
  std::string description;  // Dataset::describe: the file, or the place in one
  int64_t label = -1;       // -1: none
  int64_t predicted = -1;
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::vector<ClassScore> scores;  // highest first, up to five
  std::string image_png;           // bytes of a PNG file; empty: no picture
};

// A picture of any task: a reconstruction, a mask over its image, a grid of samples.
struct EvaluationPicture {
  std::string title;
  std::string caption;
  std::string image_png;  // bytes of a PNG file
};

struct EvaluationFile {
  std::map<std::string, double> metrics;  // "loss", "top1" ...; accuracies in percent
  int64_t num_samples = 0;
  int64_t num_left_out = 0;  // samples that could not be read, with data.bad_samples
  int64_t step = -1;         // of the weights; -1: not known
  double epoch = std::numeric_limits<double>::quiet_NaN();
  std::string dataset;  // what was evaluated, in words
  int64_t num_classes = 0;
  std::vector<std::string> class_names;  // empty, or one for each class
  std::vector<ConfusionCount> confusion;
  std::vector<SamplePrediction> samples;   // of all samples, evenly spread
  std::vector<SamplePrediction> mistakes;  // wrong ones, highest loss first
  std::vector<EvaluationPicture> pictures;

  // NaN where the evaluation has no such metric.
  double metric(const std::string& name) const;
};

// The name of a class: its own, or "class 7" where the data set has none.
std::string class_name(const std::vector<std::string>& names, int64_t label);

std::string evaluation_to_json(const EvaluationFile& evaluation);
// Throws DataError naming `source` and what is wrong; missing entries keep their defaults.
EvaluationFile evaluation_from_json(const std::string& json, const std::string& source);

// Atomic: the old file or the whole new one. Throws Error when the folder cannot be written.
void write_evaluation_file(const std::filesystem::path& path, const EvaluationFile& evaluation);
EvaluationFile read_evaluation_file(const std::filesystem::path& path);

}  // namespace fovea::train
