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
#include "apps/fovea/predict/predict.h"
#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::app {
namespace {

constexpr int64_t kBatch = 32;

struct Prediction {
  std::string input;
  std::optional<int64_t> slice;                         // none: of the whole
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
void append_tiled(const train::Inference& inference,
                  const std::shared_ptr<const data::TiledDataset>& tiles, const std::string& input,
                  int64_t top, std::vector<Prediction>& predictions) {
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < tiles->size(); first += kBatch) {
    parts.push_back(scores_of(inference, tiles, first, std::min(kBatch, tiles->size() - first)));
  }
  const auto scores = at::cat(parts);  // [tiles, K]
  if (inference.takes_slices()) {
    const auto depth = tiles->tiling(0).axes()[0].count;
    const auto of_slices = scores.view({depth, -1, scores.size(1)}).mean(1);  // [D, K]
    for (int64_t d = 0; d < depth; ++d)
      predictions.push_back(best_of(inference, of_slices[d], top, input, d));
  }
  predictions.push_back(best_of(inference, scores.mean(0), top, input));
}

void append_predictions(const train::Inference& inference, const std::vector<std::string>& inputs,
                        int64_t top, std::vector<Prediction>& predictions) {
  const at::NoGradGuard no_grad;
  const auto samples = inference.open_files(inputs);
  if (inference.cut(samples)) {
    for (const auto& input : inputs) {
      append_tiled(inference, inference.cut(inference.open_files({input})), input, top,
                   predictions);
    }
    return;
  }
  const auto scores = scores_of(inference, samples, 0, samples->size());  // [B, K]
  for (int64_t b = 0; b < scores.size(0); ++b)
    predictions.push_back(best_of(inference, scores[b], top, inputs[static_cast<size_t>(b)]));
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

}  // namespace

void predict_classes(const PredictArguments& arguments, const train::Inference& inference) {
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  std::vector<Prediction> predictions;
  for (size_t first = 0; first < arguments.inputs.size(); first += size_t{kBatch}) {
    const auto last = std::min(arguments.inputs.size(), first + size_t{kBatch});
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
