#include "fovea/train/finish.h"

#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/data/png.h"
#include "fovea/data/preview.h"
#include "fovea/data/transforms/resize.h"

namespace fovea::train {
namespace {

using Prediction = ClassificationEvaluation::Prediction;

// The image, shrunk so that its longer side is at most `side`.
data::Image at_most(int64_t side, data::Image image) {
  const auto longer = std::max(image.height, image.width);
  if (longer <= side) return image;
  const auto scaled = [&](int64_t length) {
    return std::max<int64_t>(1, (length * side + longer / 2) / longer);
  };
  data::Image small;
  data::ResizeScratch scratch;
  data::resize(data::ImageView(image), {scaled(image.height), scaled(image.width)},
               data::Interpolation::kBilinear, small, scratch);
  return small;
}

SamplePrediction show(const Prediction& prediction, const data::Dataset& dataset) {
  SamplePrediction shown{.index = prediction.index,
                         .description = dataset.describe(prediction.index),
                         .label = prediction.label,
                         .predicted = prediction.classes.front(),
                         .loss = prediction.loss,
                         .scores = {},
                         .image_png = {}};
  for (size_t k = 0; k < prediction.classes.size(); ++k) {
    shown.scores.push_back({prediction.classes[k], prediction.scores[k]});
  }
  data::Sample sample;
  try {
    dataset.read(prediction.index, sample);
  } catch (const DataError& error) {  // it went away since it was evaluated
    log_warning(fmt::format("no picture in the report: {}", error.what()));
    return shown;
  }
  const auto png = data::encode_png(at_most(kPictureSide, data::preview_of(sample)));
  shown.image_png.assign(png.begin(), png.end());
  return shown;
}

std::vector<Prediction> worst_mistakes(const std::vector<Prediction>& predictions) {
  std::vector<Prediction> mistakes;
  std::copy_if(predictions.begin(), predictions.end(), std::back_inserter(mistakes),
               [](const Prediction& p) { return p.classes.front() != p.label; });
  const auto shown = std::min<size_t>(mistakes.size(), kShownMistakes);
  std::partial_sort(mistakes.begin(), mistakes.begin() + static_cast<int64_t>(shown),
                    mistakes.end(), [](const Prediction& a, const Prediction& b) {
                      return std::pair(-a.loss, a.index) < std::pair(-b.loss, b.index);
                    });
  mistakes.resize(shown);
  return mistakes;
}

// The words of this process's command line.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

}  // namespace

EvaluationFile describe_evaluation(const ClassificationEvaluation& evaluation,
                                   const data::Dataset& dataset) {
  const auto metrics = evaluation.metrics();
  const auto& predictions = evaluation.predictions();
  EvaluationFile file;
  file.loss = metrics.at("loss");
  file.top1 = metrics.at("top1");
  file.top5 = metrics.at("top5");
  file.num_samples = evaluation.num_samples();
  file.class_names = dataset.class_names();
  file.num_classes = evaluation.confusion().size(0);
  const std::span counts(evaluation.confusion().const_data_ptr<int64_t>(),
                         static_cast<size_t>(evaluation.confusion().numel()));
  file.confusion = confusion_counts(counts, file.num_classes);
  const auto total = static_cast<int64_t>(predictions.size());
  const int64_t shown = std::min(kShownSamples, total);
  for (int64_t i = 0; i < shown; ++i) {
    file.samples.push_back(show(predictions[static_cast<size_t>(i * total / shown)], dataset));
  }
  for (const auto& mistake : worst_mistakes(predictions))
    file.mistakes.push_back(show(mistake, dataset));
  return file;
}

RunClock::RunClock(std::filesystem::path path, const ComputeOptions& compute)
    : path_(std::move(path)) {
  file_.started = timestamp_now();
  if (std::filesystem::exists(path_)) file_.started = read_machine_file(path_).started;
  file_.machine = this_machine();
  file_.version = FOVEA_VERSION;
  file_.torch_version = TORCH_VERSION;
  file_.command = command_line();
  file_.device = compute.device.str();
  file_.dtype = dtype_name(compute.dtype);
  file_.threads = at::get_num_threads();
  write_machine_file(path_, file_);
}

RunClock::~RunClock() {
  file_.ended = timestamp_now();
  try {
    write_machine_file(path_, file_);
  } catch (const Error& error) {
    log_warning(error.what());  // the run itself is not lost for it
  }
}

}  // namespace fovea::train
