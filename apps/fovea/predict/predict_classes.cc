// Labels and scores.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
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

struct Prediction {
  std::string input;
  std::vector<std::pair<std::string, double>> classes;  // best first
};

// Of inputs [first, first + count).
std::vector<Prediction> predictions_of(const train::Inference& inference,
                                       const PredictInputs& inputs, int64_t first, int64_t count,
                                       int64_t top) {
  const at::NoGradGuard no_grad;
  const auto batch = inference.prepare(inputs.samples, first, count);
  const auto logits = train::forward(*inference.model, batch.tensors).to(at::kCPU, at::kFloat);
  if (logits.dim() != 2)
    fail<ConfigError>("the model gives no logits: its pooling is ''; give images as a tensor file");
  const auto [scores, classes] = logits.softmax(1).topk(std::min(top, logits.size(1)), 1);
  std::vector<Prediction> predictions;  // scores, classes: [count, top]
  for (int64_t b = 0; b < logits.size(0); ++b) {
    Prediction prediction{inputs.at(first + b).path, {}};
    for (int64_t k = 0; k < scores.size(1); ++k) {
      prediction.classes.emplace_back(inference.class_name(classes[b][k].item<int64_t>()),
                                      scores[b][k].item<double>());
    }
    predictions.push_back(std::move(prediction));
  }
  return predictions;
}

std::string to_text(const Prediction& prediction) {
  auto text = prediction.input + "\n";
  for (const auto& [name, score] : prediction.classes)
    text += fmt::format("  {:6.2f} %  {}\n", 100 * score, name);
  return text;
}

std::string to_json_line(const Prediction& prediction) {
  nlohmann::json classes = nlohmann::json::array();
  for (const auto& [name, score] : prediction.classes)
    classes.push_back({{"class", name}, {"score", score}});
  return json_text(nlohmann::json{{"input", prediction.input}, {"classes", classes}}) + "\n";
}

// Predicts batch by batch, and prints each as soon as it is there.
class ClassPredictor {
 public:
  ClassPredictor(const PredictArguments& arguments, const train::Inference& inference,
                 int64_t num_inputs)
      : arguments_(arguments), inference_(inference), unreadable_(num_inputs, arguments.json) {}

  void predict(const PredictInputs& inputs) {
    constexpr int64_t kBatch = 32;
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
