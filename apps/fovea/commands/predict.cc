// fovea predict RUN_DIR|WEIGHTS|MODEL INPUT... [--out FILE]
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/inference_options.h"
#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::app {
namespace {

struct PredictArguments {
  InferenceArguments inference;
  std::vector<std::string> inputs;
  std::string out;
  std::vector<std::string> intermediates;
  int64_t top = 5;
  bool json = false;
};

struct Outputs {
  at::Tensor logits;  // [B, num_classes] float32
  nn::NamedTensors intermediates;
};

// One forward pass. images: [B, C, H, W] float32, already normalised.
Outputs forward(const train::Inference& inference, const at::Tensor& images,
                const std::vector<std::string>& wanted) {
  const at::NoGradGuard no_grad;
  const bool all = wanted == std::vector<std::string>{"all"};
  std::optional<nn::RecordScope> recorder;
  if (!wanted.empty()) recorder.emplace(all ? std::vector<std::string>{} : wanted);
  Outputs outputs;
  const auto input = images.to(inference.compute.device, inference.compute.dtype);
  outputs.logits = inference.model->forward(input).to(at::kCPU, at::kFloat);
  if (!recorder) return outputs;
  for (const auto& [name, tensor] : recorder->intermediates()) {
    outputs.intermediates.emplace_back(name, tensor.to(at::kCPU, at::kFloat));
  }
  for (const auto& name : wanted) {
    const auto found = std::any_of(outputs.intermediates.begin(), outputs.intermediates.end(),
                                   [&](const auto& entry) { return entry.first == name; });
    if (!all && !found) {
      fail<ConfigError>(
          "--intermediates: the model gives no '{}'; `--intermediates all --out FILE.safetensors` "
          "lists "
          "what there is",
          name);
    }
  }
  return outputs;
}

void predict_tensor(const PredictArguments& arguments, const train::Inference& inference) {
  const auto images = nn::read_one_tensor(arguments.inputs.front(), "images");
  if (images.dim() < 4) {
    fail<DataError>(
        "{}: a tensor of {} dims; expected images [B, C, H, W] float32, already normalised",
        arguments.inputs.front(), images.dim());
  }
  auto outputs = forward(inference, images.to(at::kFloat), arguments.intermediates);
  nn::NamedTensors named = {{"logits", outputs.logits}};
  named.insert(named.end(), outputs.intermediates.begin(), outputs.intermediates.end());
  const auto out = arguments.out.empty() ? std::string("predictions.npy") : arguments.out;
  nn::write_tensor_file(out, named);
  fmt::print("{}: logits of {} inputs and {} intermediates\n", out, outputs.logits.size(0),
             outputs.intermediates.size());
}

struct Prediction {
  std::string input;
  std::vector<std::pair<std::string, double>> classes;  // best first
};

void append_predictions(const train::Inference& inference, const std::vector<std::string>& inputs,
                        int64_t top, std::vector<Prediction>& predictions) {
  const auto samples = inference.open_files(inputs);
  const auto images = inference.preprocess(samples, 0, samples->size());
  const auto logits = forward(inference, images, {}).logits;
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
  return nlohmann::json{{"input", prediction.input}, {"classes", classes}}.dump() + "\n";
}

void predict_images(const PredictArguments& arguments, const train::Inference& inference) {
  constexpr size_t kBatch = 32;
  std::vector<Prediction> predictions;
  for (size_t first = 0; first < arguments.inputs.size(); first += kBatch) {
    const auto last = std::min(arguments.inputs.size(), first + kBatch);
    append_predictions(inference,
                       {arguments.inputs.begin() + first, arguments.inputs.begin() + last},
                       arguments.top, predictions);
  }
  std::string lines;
  for (const auto& prediction : predictions) {
    if (!arguments.json) fmt::print("{}", to_text(prediction));
    lines += to_json_line(prediction);
  }
  if (arguments.json) fmt::print("{}", lines);
  if (!arguments.out.empty()) write_file_atomic(arguments.out, lines);
}

void run(const PredictArguments& arguments) {
  const auto inference = arguments.inference.load();
  const auto is_tensor =
      std::count_if(arguments.inputs.begin(), arguments.inputs.end(), nn::is_tensor_file);
  if (is_tensor == 0) {
    if (!arguments.intermediates.empty()) {
      fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
    }
    predict_images(arguments, inference);
  } else if (arguments.inputs.size() == 1) {
    predict_tensor(arguments, inference);
  } else {
    fail<ConfigError>(
        "{} tensor files among {} inputs; expected image files only, or one tensor file", is_tensor,
        arguments.inputs.size());
  }
}

}  // namespace

void add_predict(CLI::App& app) {
  auto* command =
      app.add_subcommand("predict", "Labels and scores of images, or logits of a tensor file");
  auto arguments = std::make_shared<PredictArguments>();
  add_inference_options(*command, arguments->inference);
  command
      ->add_option(
          "inputs", arguments->inputs,
          "image files; NIfTI files or folders of DICOM slices (several modalities: a;b); or "
          "one .npy/.safetensors file of images [B, C, H, W] float32, already normalised")
      ->required()
      ->type_name("INPUT...");
  command->add_option(
      "--out", arguments->out,
      "file to write: JSON lines for images, .npy or .safetensors for a tensor file");
  command
      ->add_option("--intermediates", arguments->intermediates,
                   "names such as blocks.0.attn to write beside the logits, or all")
      ->delimiter(',');
  command->add_option("--top", arguments->top, "classes shown for each image")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--json", arguments->json,
                    "print one JSON object an image on standard output and nothing else there");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
