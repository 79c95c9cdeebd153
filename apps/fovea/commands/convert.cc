// fovea convert SRC DST
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/fovea/command.h"
#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/train/inference.h"
#include "fovea/train/run_folder.h"

namespace fovea::app {
namespace {

struct ConvertArguments {
  std::string source, target, model, format = "timm";
  std::string checkpoint = "final";
  bool skip_head = false;
  bool json = false;
};

// Weights of a run: written as they stand, with timm's names and without the run's metadata.
models::LoadReport convert_run(const ConvertArguments& arguments) {
  train::InferenceOptions options;
  options.checkpoint = arguments.checkpoint;
  options.device = "cpu";
  const auto inference = train::load_inference(arguments.source, options);
  models::save_weights(*inference.model, arguments.target);
  models::LoadReport report;
  for (const auto& [name, tensor] : models::weights_of(*inference.model))
    report.loaded.push_back(name);
  return report;
}

// A foreign file: loaded strictly into the model it is said to be of, so that nothing is written
// that does not fit.
models::LoadReport convert_file(const ConvertArguments& arguments) {
  const auto model = models::build_named(arguments.model);
  model->init_weights(0);
  const auto report =
      models::load_weights(*model, arguments.source, {.skip_head = arguments.skip_head});
  models::save_weights(*model, arguments.target);
  return report;
}

void run(const ConvertArguments& arguments) {
  const bool is_run = train::is_run_folder(arguments.source) || arguments.model.empty();
  const auto report = is_run ? convert_run(arguments) : convert_file(arguments);
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::json{{"source", arguments.source},
                                      {"target", arguments.target},
                                      {"loaded", report.loaded.size()},
                                      {"adapted", report.adapted},
                                      {"skipped", report.skipped}}
                           .dump());
    return;
  }
  fmt::print("{} -> {}\n  {}\n", arguments.source, arguments.target, report.text());
}

}  // namespace

void add_convert(CLI::App& app) {
  auto* command = app.add_subcommand("convert", "Weights between formats, strictly, with a report");
  auto arguments = std::make_shared<ConvertArguments>();
  command
      ->add_option("source", arguments->source,
                   "safetensors file with timm's names, weights file of a run, or run folder")
      ->required()
      ->type_name("SRC");
  command->add_option("target", arguments->target, "safetensors file to write")
      ->required()
      ->type_name("DST");
  command->add_option(
      "--model", arguments->model,
      "the model that a foreign file belongs to, by timm's name: vit_small_patch16_224");
  command->add_option("--to", arguments->format, "names and layout to write")
      ->check(CLI::IsMember({"timm"}))
      ->capture_default_str();
  command
      ->add_option("--checkpoint", arguments->checkpoint, "of a run folder: final, best or latest")
      ->check(CLI::IsMember({"final", "best", "latest"}))
      ->capture_default_str();
  command->add_flag("--skip-head", arguments->skip_head,
                    "leave the classifier of a foreign file out");
  command->add_flag("--json", arguments->json,
                    "print one JSON object on standard output and nothing else there");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
