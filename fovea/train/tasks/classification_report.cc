// What a report shows of a classification: confusions, sample predictions, worst mistakes.
#include <algorithm>
#include <iterator>
#include <utility>

#include "fovea/train/evaluate/sample_picture.h"
#include "fovea/train/tasks/classification.h"

namespace fovea::train {
namespace {

using Prediction = ClassificationEvaluation::Prediction;

SamplePrediction show(const Prediction& prediction, const data::Dataset& dataset) {
  SamplePrediction shown{.index = prediction.index,
                         .description = dataset.describe(prediction.index),
                         .label = prediction.label,
                         .predicted = prediction.classes.front(),
                         .loss = prediction.loss,
                         .scores = {},
                         .image_png = sample_picture(dataset, prediction.index)};
  for (size_t k = 0; k < prediction.classes.size(); ++k) {
    shown.scores.push_back({prediction.classes[k], prediction.scores[k]});
  }
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

}  // namespace

void ClassificationEvaluation::describe(EvaluationFile& file, const data::Dataset& dataset) const {
  file.class_names = dataset.class_names();
  file.num_classes = num_classes_;
  for (const auto& [pair, count] : confusion_) {
    file.confusion.push_back({pair.first, pair.second, count});
  }
  const auto total = static_cast<int64_t>(predictions_.size());
  const int64_t shown = std::min(kShownSamples, total);
  for (int64_t i = 0; i < shown; ++i) {
    file.samples.push_back(show(predictions_[static_cast<size_t>(i * total / shown)], dataset));
  }
  for (const auto& mistake : worst_mistakes(predictions_))
    file.mistakes.push_back(show(mistake, dataset));
}

}  // namespace fovea::train
