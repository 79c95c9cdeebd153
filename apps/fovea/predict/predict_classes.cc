// Labels and scores.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/files/atomic_file.h"

namespace fovea::app {
namespace {

constexpr int64_t kBatch = 32;  // inputs that are asked about together

struct Prediction {
  std::string input;
  std::optional<int64_t> slice;                         // of a volume; none: the whole input
  std::vector<std::pair<std::string, double>> classes;  // best first
};

Prediction named(const inference::Predictor& predictor, const at::Tensor& scores, int64_t top,
                 const std::string& input, std::optional<int64_t> slice = {}) {
  Prediction prediction{input, slice, {}};
  for (const auto& [label, score] : inference::best(scores, top)) {
    prediction.classes.emplace_back(predictor.loaded().class_name(label), score);
  }
  return prediction;
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

// Predicts some at a time, and prints each as soon as they are there.
class ClassPrinter {
 public:
  ClassPrinter(const PredictArguments& arguments, const inference::Predictor& predictor,
               int64_t num_inputs)
      : arguments_(arguments), predictor_(predictor), unreadable_(num_inputs, arguments.json) {}

  void predict(const PredictInputs& inputs) {
    for (int64_t first = 0; first < inputs.size(); first += kBatch) {
      auto outcomes =
          predictor_.classes(inputs.given(first, std::min(kBatch, inputs.size() - first)));
      for (size_t i = 0; i < outcomes.size(); ++i) {
        report(outcomes[i], inputs.at(first + static_cast<int64_t>(i)).path);
      }
    }
  }
  const std::string& lines() const { return lines_; }
  const UnreadableInputs& unreadable() const { return unreadable_; }

 private:
  void report(const inference::Outcome<inference::Classes>& outcome, const std::string& input) {
    if (outcome.error) {
      lines_ += unreadable_.add(input, *outcome.error);
      return;
    }
    const auto& slices = outcome.value->of_slices;
    for (int64_t d = 0; slices.defined() && d < slices.size(0); ++d) {
      report(named(predictor_, slices[d], arguments_.top, input, d));
    }
    report(named(predictor_, outcome.value->scores, arguments_.top, input));
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
  const inference::Predictor& predictor_;
  UnreadableInputs unreadable_;
  std::string lines_;
};

}  // namespace

void predict_classes(const PredictArguments& arguments, const inference::Predictor& predictor) {
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  const auto all = open_predict_inputs(arguments.inputs, predictor.loaded());
  ClassPrinter printer(arguments, predictor, count_inputs(all));
  for (const auto& inputs : all) printer.predict(inputs);
  if (!arguments.out.empty()) write_file_atomic(arguments.out, printer.lines());
  printer.unreadable().finish();
}

}  // namespace fovea::app
