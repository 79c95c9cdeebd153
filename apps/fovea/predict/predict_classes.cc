// Labels and scores.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::app {
namespace {

constexpr int64_t kBatch = 32;

struct Prediction {
  std::string input;
  std::optional<int64_t> slice;                         // of a volume; none: the whole input
  std::vector<std::pair<std::string, double>> classes;  // best first
};

// Scores of samples [first, first + count): [count, K] float32 on the CPU.
at::Tensor scores_of(const train::Inference& inference,
                     const std::shared_ptr<const data::Dataset>& samples, int64_t first,
                     int64_t count) {
  const auto batch = inference.prepare(samples, first, count);
  const auto logits = train::forward(*inference.model, batch.tensors).to(at::kCPU, at::kFloat);
  if (logits.dim() != 2)
    fail<ConfigError>("the model gives no logits: its pooling is ''; give images as a tensor file");
  return logits.softmax(1);
}

// scores: [K].
Prediction best_of(const train::Inference& inference, const at::Tensor& scores, int64_t top,
                   const std::string& input, std::optional<int64_t> slice = {}) {
  const auto [best, classes] = scores.topk(std::min(top, scores.size(0)), 0);  // [top]
  Prediction prediction{input, slice, {}};
  for (int64_t k = 0; k < best.size(0); ++k) {
    prediction.classes.emplace_back(inference.class_name(classes[k].item<int64_t>()),
                                    best[k].item<double>());
  }
  return prediction;
}

// Of a volume that is seen in tiles: each slice, where they are slices, and the mean of all.
std::vector<Prediction> predictions_of_tiles(const train::Inference& inference,
                                             const std::shared_ptr<const data::TiledDataset>& tiles,
                                             const std::string& input, int64_t top) {
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < tiles->size(); first += kBatch) {
    parts.push_back(scores_of(inference, tiles, first, std::min(kBatch, tiles->size() - first)));
  }
  const auto scores = at::cat(parts);  // [tiles, K]
  std::vector<Prediction> predictions;
  if (inference.takes_slices()) {
    const auto depth = tiles->tiling(0).axes()[0].count;
    const auto of_slices = scores.view({depth, -1, scores.size(1)}).mean(1);  // [D, K]
    for (int64_t d = 0; d < depth; ++d)
      predictions.push_back(best_of(inference, of_slices[d], top, input, d));
  }
  predictions.push_back(best_of(inference, scores.mean(0), top, input));
  return predictions;
}

// Of inputs [first, first + count).
std::vector<Prediction> predictions_of(const train::Inference& inference,
                                       const PredictInputs& inputs, int64_t first, int64_t count,
                                       int64_t top) {
  const at::NoGradGuard no_grad;
  std::vector<Prediction> predictions;
  if (inference.cut(inputs.only(first))) {
    for (int64_t i = first; i < first + count; ++i) {
      const auto own =
          predictions_of_tiles(inference, inference.cut(inputs.only(i)), inputs.at(i).path, top);
      predictions.insert(predictions.end(), own.begin(), own.end());
    }
    return predictions;
  }
  const auto scores = scores_of(inference, inputs.samples, first, count);  // [count, K]
  for (int64_t b = 0; b < count; ++b)
    predictions.push_back(best_of(inference, scores[b], top, inputs.at(first + b).path));
  return predictions;
}

std::string to_text(const Prediction& prediction) {
  auto text = prediction.input;
  if (prediction.slice) text += fmt::format(" slice {}", *prediction.slice);
  text += '\n';
  for (const auto& [name, score] : prediction.classes)
    text += fmt::format("  {:6.2f} %  {}\n", 100 * score, name);
  return text;
}

std::string to_json_line(const Prediction& prediction) {
  nlohmann::json classes = nlohmann::json::array();
  for (const auto& [name, score] : prediction.classes)
    classes.push_back({{"class", name}, {"score", score}});
  nlohmann::json line = {{"input", prediction.input}, {"classes", classes}};
  if (prediction.slice) line["slice"] = *prediction.slice;
  return json_text(line) + "\n";
}

// Predicts batch by batch, and prints each as soon as it is there.
class ClassPredictor {
 public:
  ClassPredictor(const PredictArguments& arguments, const train::Inference& inference,
                 int64_t num_inputs)
      : arguments_(arguments), inference_(inference), unreadable_(num_inputs, arguments.json) {}

  void predict(const PredictInputs& inputs) {
    for (int64_t first = 0; first < inputs.size(); first += kBatch) {
      predict(inputs, first, std::min(kBatch, inputs.size() - first));
    }
  }
  const std::string& lines() const { return lines_; }
  const UnreadableInputs& unreadable() const { return unreadable_; }

 private:
  // A batch with an input that cannot be read is done one by one.
  void predict(const PredictInputs& inputs, int64_t first, int64_t count) {
    try {
      for (const auto& one : predictions_of(inference_, inputs, first, count, arguments_.top))
        report(one);
    } catch (const DataError& error) {
      if (count == 1) {
        lines_ += unreadable_.add(inputs.at(first).path, error);
        return;
      }
      for (int64_t i = first; i < first + count; ++i) predict(inputs, i, 1);
    }
  }

  void report(const Prediction& prediction) {
    const auto line = to_json_line(prediction);
    if (arguments_.json) {
      say_as_is("{}", line);
    } else {
      say("{}", to_text(prediction));
    }
    lines_ += line;
  }

  const PredictArguments& arguments_;
  const train::Inference& inference_;
  UnreadableInputs unreadable_;
  std::string lines_;
};

}  // namespace

void predict_classes(const PredictArguments& arguments, const train::Inference& inference) {
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  const auto all = open_predict_inputs(arguments.inputs, inference);
  ClassPredictor predictor(arguments, inference, count_inputs(all));
  for (const auto& inputs : all) predictor.predict(inputs);
  if (!arguments.out.empty()) write_file_atomic(arguments.out, predictor.lines());
  predictor.unreadable().finish();
}

}  // namespace fovea::app
