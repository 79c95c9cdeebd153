// fovea export RUN_DIR|WEIGHTS FILE
#include "fovea/onnx/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/export_check.h"
#include "apps/fovea/inference_options.h"
#include "apps/fovea/output.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/inference/predictor.h"
#include "fovea/models/weights.h"
#include "fovea/train/recipe/int8_layers.h"

namespace fovea::app {
namespace {

struct ExportArguments {
  std::string target, file;
  std::vector<std::string> files;  // as they are given: one
  train::InferenceOptions options;
  std::string to = "onnx";
  std::string part = "all";
  int64_t batch_size = 0;
  int64_t weight_bits = 8;
  bool check = false;
  bool json = false;
};

// "[batch, 3, 224, 224]".
std::string text_of(const onnx::Port& port) {
  std::vector<std::string> sides;
  for (const auto& size : port.shape) {
    sides.push_back(size.is_fixed() ? std::to_string(size.fixed) : "batch");
  }
  return fmt::format("{} [{}]", port.name, fmt::join(sides, ", "));
}

const char* type_of(const onnx::Port& port) {
  if (port.dtype == at::kBool) return "bool";
  return port.dtype == at::kLong ? "int64" : "float32";
}

nlohmann::json json_of(const onnx::Port& port) {
  auto sides = nlohmann::json::array();
  for (const auto& size : port.shape) {
    sides.push_back(size.is_fixed() ? nlohmann::json(size.fixed) : nlohmann::json("batch"));
  }
  nlohmann::json line = {{"name", port.name}, {"shape", sides}, {"type", type_of(port)}};
  if (!port.help.empty()) line["help"] = port.help;
  return line;
}

// What a program that runs the file needs to know of its input and output.
std::map<std::string, std::string> metadata_of(const train::Inference& inference) {
  const auto spec = inference.model->input_spec();
  std::map<std::string, std::string> metadata = {
      {"fovea.class_names", json_text(nlohmann::json(inference.class_names))}};
  if (inference.config) {
    metadata["fovea.config"] = dump_config(*inference.config);
  } else {
    metadata["fovea.input"] = json_text(nlohmann::json{{"mean", spec.mean},
                                                       {"std", spec.std},
                                                       {"crop_pct", spec.crop_pct},
                                                       {"crop_mode", spec.crop_mode},
                                                       {"interpolation", spec.interpolation}});
  }
  return metadata;
}

// The layers that are written as products of 8-bit integers; the model has been loaded for them.
onnx::Int8Layers int8_layers_of(const ExportArguments& arguments,
                                const train::Inference& inference) {
  const auto* config = inference.config ? &*inference.config : nullptr;
  const auto int8 = train::int8_of(arguments.options, config);
  if (!int8) return {};
  const auto ranges = train::int8_ranges_of(*int8, inference.weights);
  if (!ranges) {
    fail<ConfigError>(
        "int8.activations: found dynamic, which ONNX cannot say; expected calibrated: give --dtype "
        "int8, once `fovea calibrate` has measured the ranges");
  }
  onnx::Int8Layers layers{.weight_bits = static_cast<int>(arguments.weight_bits)};
  for (const auto& [name, layer] : train::int8_layers(*inference.model, int8->skip)) {
    layers.inputs[name] = ranges->layers.at(name).inputs;
  }
  return layers;
}

void export_onnx(const ExportArguments& arguments, const train::Inference& inference) {
  onnx::ExportOptions options;
  options.part = arguments.part == "encoder" ? onnx::Part::kEncoder : onnx::Part::kAll;
  if (arguments.batch_size > 0) options.batch_size = arguments.batch_size;
  options.int8 = int8_layers_of(arguments, inference);
  options.file.metadata = metadata_of(inference);
  if (inference.config) {
    const auto& patching = inference.config->data.adaptive_patching;
    if (patching && patching->separate_channels) {
      options.num_trees = inference.model->input_spec().in_chans;
    }
    const auto* diffusion = inference.config->task.get_if<train::DiffusionConfig>();
    if (diffusion != nullptr) options.num_time_steps = diffusion->num_time_steps;
  }
  const auto report = onnx::export_model(*inference.model, arguments.file, options);
  const auto& graph = report.graph;
  std::optional<OnnxCheck> check;
  if (arguments.check) check = check_onnx(*inference.model, arguments.file, options);
  if (arguments.json) {
    nlohmann::json line = {{"file", arguments.file},
                           {"data_file", report.file.data_file},
                           {"bytes", report.file.bytes},
                           {"opset", onnx::kOpset},
                           {"nodes", graph.nodes.size()},
                           {"initializers", graph.initializers.size()},
                           {"int8_layers", report.num_int8},
                           {"inputs", nlohmann::json::array()},
                           {"outputs", nlohmann::json::array()}};
    for (const auto& port : graph.inputs) line["inputs"].push_back(json_of(port));
    for (const auto& port : graph.outputs) line["outputs"].push_back(json_of(port));
    if (check) line["check"] = {{"worst", check->worst}, {"largest", check->largest}};
    say_as_is("{}\n", json_text(line));
    return;
  }
  say("{}: ONNX, opset {}, {} nodes, {} initialisers, {:.1f} MB\n", arguments.file, onnx::kOpset,
      graph.nodes.size(), graph.initializers.size(), static_cast<double>(report.file.bytes) / 1e6);
  if (!options.int8.inputs.empty()) {
    say("int8:   {} linear layers, weights of {} bits\n", report.num_int8, arguments.weight_bits);
  }
  if (!report.file.data_file.empty()) {
    say("data:   {} (keep it beside the model)\n", report.file.data_file);
  }
  for (const auto& port : graph.inputs) {
    say("input:  {} {}: {}\n", text_of(port), type_of(port), port.help);
  }
  for (const auto& port : graph.outputs) say("output: {} float32\n", text_of(port));
  if (check) {
    say("check:  ONNX Runtime {} differs from the model by at most {:.1e}, of numbers up to "
        "{:.3g}\n",
        check->onnxruntime, check->worst, check->largest);
  }
}

void export_safetensors(const ExportArguments& arguments, const train::Inference& inference) {
  if (arguments.part != "all" || arguments.batch_size > 0 || arguments.check ||
      arguments.options.dtype == "int8") {
    fail<ConfigError>(
        "--part, --batch-size, --dtype int8 and --check are for --to onnx: a file of weights holds "
        "all values");
  }
  if (inference.config) {
    train::save_inference_weights(arguments.file, *inference.model, *inference.config,
                                  inference.class_names);
  } else {
    models::save_weights(*inference.model, arguments.file, {{"format", "pt"}});
  }
  const auto count = inference.model->named_parameters().size();
  if (arguments.json) {
    say_as_is("{}\n", json_text(nlohmann::json{{"file", arguments.file}, {"tensors", count}}));
  } else {
    say("{}: safetensors, {} tensors with timm's names\n", arguments.file, count);
  }
}

void check_ending(const ExportArguments& arguments) {
  const auto ending = arguments.to == "onnx" ? ".onnx" : ".safetensors";
  if (arguments.file.ends_with(ending)) return;
  fail<ConfigError>("{}: expected a name that ends in {} with --to {}", arguments.file, ending,
                    arguments.to);
}

void run_export(ExportArguments& arguments) {
  settle_target(arguments.target, arguments.options, arguments.files);
  if (arguments.files.size() != 1) {
    fail<Error>("{} files to write; expected one: FILE.onnx or FILE.safetensors",
                arguments.files.size());
  }
  arguments.file = arguments.files.front();
  check_ending(arguments);
  if (arguments.options.dtype == "int8") arguments.options.int8_activations = "calibrated";
  arguments.options.int8_rest = "float32";  // as in the file
  const inference::Predictor predictor(arguments.target, arguments.options);
  const auto& inference = predictor.loaded();
  if (arguments.to == "onnx") {
    export_onnx(arguments, inference);
  } else {
    export_safetensors(arguments, inference);
  }
}

}  // namespace

void add_export(Command app) {
  auto command = app.add_command("export", "A trained model as one file for other programs");
  auto arguments = std::make_shared<ExportArguments>();
  arguments->options.device = "cpu";
  add_model_options(command, arguments->target, arguments->options);
  command.add_option("file", arguments->files, "file to write: .onnx or .safetensors")
      .type_name("FILE");
  command.add_option("--to", arguments->to, "format")
      .one_of({"onnx", "safetensors"})
      .show_default();
  command
      .add_option("--part", arguments->part,
                  "ONNX: all, such as images to logits; encoder, images to tokens and features")
      .one_of({"all", "encoder"})
      .show_default();
  command
      .add_option("--batch-size", arguments->batch_size, "ONNX: images of a batch; 0: any number")
      .non_negative()
      .show_default();
  command
      .add_option("--dtype", arguments->options.dtype,
                  "ONNX: float32; int8: linear layers of blocks as QuantizeLinear and "
                  "DequantizeLinear, which other programs multiply as 8-bit integers; needs the "
                  "ranges of `fovea calibrate`")
      .one_of({"float32", "int8"})
      .show_default();
  add_int8_skip(command, arguments->options);
  add_int8_ranges(command, arguments->options);
  command
      .add_option("--int8-weight-bits", arguments->weight_bits,
                  "8, or 7 for processors without VNNI, where other programs cut off sums of "
                  "products that 8 bits make too large")
      .in_range(7, 8)
      .show_default();
  command.add_flag("--check", arguments->check,
                   "ONNX: run the file with ONNX Runtime and compare it with the model");
  command
      .add_option("--class-names", arguments->options.class_names,
                  "file with the names of the classes, as for predict")
      .type_name("FILE");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples(
      {"fovea export runs/flowers flowers.onnx --check",
       "fovea export runs/flowers encoder.onnx --part encoder --batch-size 8 --dtype int8",
       "fovea export runs/flowers flowers.safetensors --to safetensors --checkpoint best"});
  command.callback([arguments] { run_export(*arguments); });
}

}  // namespace fovea::app
