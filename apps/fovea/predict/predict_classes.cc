// Labels and scores.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/fovea/output.h"
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

void append_predictions(const train::Inference& inference, const std::vector<std::string>& inputs,
                        int64_t top, std::vector<Prediction>& predictions) {
  const at::NoGradGuard no_grad;
  const auto samples = inference.open_files(inputs);
  const auto batch = inference.prepare(samples, 0, samples->size());
  const auto logits = train::forward(*inference.model, batch.tensors).to(at::kCPU, at::kFloat);
  if (logits.dim() != 2)
    fail<ConfigError>("the model gives no logits: its pooling is ''; give images as a tensor file");
  const auto [scores, classes] =
      logits.softmax(1).topk(std::min(top, logits.size(1)), 1);  // [B, top]
  for (int64_t b = 0; b < logits.size(0); ++b) {
    Prediction prediction{inputs[static_cast<size_t>(b)], {}};
    for (int64_t k = 0; k < scores.size(1); ++k) {
      prediction.classes.emplace_back(inference.class_name(classes[b][k].item<int64_t>()),
                                      scores[b][k].item<double>());
    }
    predictions.push_back(std::move(prediction));
  }
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

}  // namespace

void predict_classes(const PredictArguments& arguments, const train::Inference& inference) {
  constexpr size_t kBatch = 32;
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  std::vector<Prediction> predictions;
  for (size_t first = 0; first < arguments.inputs.size(); first += kBatch) {
    const auto last = std::min(arguments.inputs.size(), first + kBatch);
    append_predictions(inference,
                       {arguments.inputs.begin() + first, arguments.inputs.begin() + last},
                       arguments.top, predictions);
  }
  std::string lines;
  for (const auto& prediction : predictions) {
    if (!arguments.json) say("{}", to_text(prediction));
    lines += to_json_line(prediction);
  }
  if (arguments.json) say_as_is("{}", lines);
  if (!arguments.out.empty()) write_file_atomic(arguments.out, lines);
}

}  // namespace fovea::app
