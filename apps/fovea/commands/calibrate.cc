// fovea calibrate RUN_DIR|WEIGHTS|MODEL [INPUT...] [--out FILE]
#include "fovea/inference/calibrate.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/inference_options.h"
#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/progress_line.h"
#include "fovea/files/atomic_file.h"

namespace fovea::app {
namespace {

struct CalibrateArguments {
  InferenceArguments inference;
  std::vector<std::string> inputs;
  std::vector<std::string> skip;
  std::string rule = train::int8_range_rule_name(inference::CalibrationOptions().rule);
  std::string out;
  int64_t samples = 300;
  bool json = false;
};

std::string ranges_file(const CalibrateArguments& arguments, const train::Inference& loaded) {
  if (!arguments.out.empty()) return arguments.out;
  if (!loaded.weights.empty()) return train::int8_ranges_beside(loaded.weights);
  fail<ConfigError>(
      "{}: no file of weights is named, beside which the ranges would be written; expected "
      "--weights, or --out FILE",
      arguments.inference.name());
}

std::vector<inference::Input> inputs_of(const CalibrateArguments& arguments,
                                        const train::Inference& loaded) {
  if (arguments.inputs.empty()) return inference::training_inputs(loaded, arguments.samples);
  std::vector<inference::Input> all, chosen;
  for (const auto& opened : open_predict_inputs(arguments.inputs, loaded)) {
    for (auto& input : opened.given(0, opened.size())) all.push_back(std::move(input));
  }
  for (const auto i :
       inference::evenly_among(static_cast<int64_t>(all.size()), arguments.samples)) {
    chosen.push_back(all[static_cast<size_t>(i)]);
  }
  return chosen;
}

void run(CalibrateArguments& arguments) {
  arguments.inference.settle(arguments.inputs);
  arguments.inference.options.device = "cpu";
  arguments.inference.options.int8_activations = "dynamic";  // whatever the recipe asks for
  arguments.inference.options.int8_rest = "float32";
  const auto predictor = arguments.inference.load();
  const auto file = ranges_file(arguments, predictor.loaded());
  const auto inputs = inputs_of(arguments, predictor.loaded());
  ProgressLine progress(arguments.json ? ProgressLine::Mode::kSilent : ProgressLine::Mode::kAuto);
  const auto ranges =
      inference::calibrate(predictor, inputs,
                           {.rule = train::int8_range_rule(arguments.rule),
                            .skip = arguments.skip,
                            .on_progress = [&](int64_t done, int64_t total) {
                              progress.update(fmt::format("calibrating {}/{}", done, total));
                            }});
  progress.clear();
  write_file_atomic(file, train::format_int8_ranges(ranges));
  if (arguments.json) {
    say_as_is("{}\n", json_text(nlohmann::json{{"file", file},
                                               {"layers", ranges.layers.size()},
                                               {"samples", ranges.num_samples},
                                               {"rule", ranges.rule}}));
    return;
  }
  say("{}: ranges of the inputs of {} layers ({}), from {} samples{}\n", file, ranges.layers.size(),
      ranges.rule, ranges.num_samples, arguments.inputs.empty() ? " of data.train" : "");
}

}  // namespace

void add_calibrate(Command app) {
  auto command =
      app.add_command("calibrate", "Ranges of a model's activations, for int8 (calibrated)");
  auto arguments = std::make_shared<CalibrateArguments>();
  add_model_options(command, arguments->inference.target, arguments->inference.options);
  command
      .add_option(
          "inputs", arguments->inputs,
          "what to measure on, as `fovea predict` takes it: files, folders, lists; default: "
          "data.train of the run, prepared as data.val is")
      .type_name("INPUT...");
  command.add_option("--samples", arguments->samples, "how many of them, evenly far apart, at most")
      .positive()
      .show_default();
  command
      .add_option(
          "--rule", arguments->rule,
          "min_max: from the least to the largest value; least_squares: where the errors of "
          "rounding and of cutting off are least together")
      .one_of({"least_squares", "min_max"})
      .show_default();
  command
      .add_option("--int8-skip", arguments->skip,
                  "layers that get no range, such as blocks.0.*, and then cannot be int8")
      .delimiter(',')
      .type_name("LAYERS");
  command
      .add_option("--out", arguments->out,
                  "file to write; default: STEM.int8_ranges.json beside the weights")
      .type_name("FILE");
  command
      .add_option("--threads", arguments->inference.threads,
                  "threads of the CPU kernels; 0: one for each core")
      .non_negative();
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea calibrate runs/flowers",
                    "fovea calibrate runs/flowers photos/ --samples 100 --rule min_max"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
