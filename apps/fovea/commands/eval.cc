// fovea eval RUN_DIR|WEIGHTS [a.b=c ...]
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/inference_options.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "apps/fovea/ranks.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/progress_line.h"
#include "fovea/nn/samples_apart.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/evaluate/int8_errors.h"
#include "fovea/train/evaluate/knn_evaluation.h"
#include "fovea/train/ranks.h"
#include "fovea/train/recipe/int8_layers.h"
#include "fovea/train/session.h"

namespace fovea::app {
namespace {

struct EvalArguments {
  InferenceArguments inference;
  bool has_knn = false;
  train::KnnOptions knn;
  bool has_int8_errors = false;
  bool json = false;
};

ProgressLine::Mode progress_mode(const EvalArguments& arguments, const parallel::World& world) {
  return arguments.json || !world.is_first() ? ProgressLine::Mode::kSilent
                                             : ProgressLine::Mode::kAuto;
}

void run_knn(const EvalArguments& arguments, const train::Inference& inference,
             const parallel::World& world) {
  ProgressLine progress(progress_mode(arguments, world));
  const auto result =
      train::evaluate_knn(*inference.model, *inference.config, arguments.knn, inference.compute,
                          [&](int64_t done, int64_t total) {
                            progress.update(fmt::format("features {}/{}", done, total));
                          });
  progress.clear();
  if (!world.is_first()) return;
  if (arguments.json) {
    nlohmann::json object(result.metrics);
    object["num_samples"] = result.num_samples;
    object["num_neighbors"] = result.num_neighbors;
    object["num_left_out"] = result.num_left_out;
    say_as_is("{}\n", json_text(object));
    return;
  }
  for (const auto& [name, value] : result.metrics) say("{:<14} {:.4f}\n", name, value);
  say("{:<14} {} of data.val, among {} of data.train\n", "num_samples", result.num_samples,
      result.num_neighbors);
  if (result.num_left_out > 0)
    say("{:<14} {} (without a label, or they cannot be read)\n", "num_left_out",
        result.num_left_out);
}

void print(const std::map<std::string, double>& metrics, int64_t num_samples, int64_t num_left_out,
           bool as_json) {
  if (as_json) {
    nlohmann::json object(metrics);
    object["num_samples"] = num_samples;
    object["num_left_out"] = num_left_out;
    say_as_is("{}\n", json_text(object));
    return;
  }
  for (const auto& [name, value] : metrics) say("{:<12} {:.4f}\n", name, value);
  say("{:<12} {}\n", "num_samples", num_samples);
  if (num_left_out > 0) say("{:<12} {} (they cannot be read)\n", "num_left_out", num_left_out);
}

// Of the first batch of data.val.
void run_int8_errors(const EvalArguments& arguments, const train::Inference& inference) {
  const auto& options = arguments.inference.options;
  const auto& config = *inference.config;
  const auto int8 = train::int8_of(options, &config);
  if (!int8) fail<ConfigError>("--int8-errors: expected --dtype int8; found {}", options.dtype);
  const auto source = train::open_validation_data(config, inference.class_names);
  if (!source.loader) fail<ConfigError>("data.val is missing; expected a data set to measure on");
  auto batch = source.loader->next();
  const auto tensors = train::to_tensors(batch, 0, batch.size(), inference.compute);
  const auto errors =
      train::measure_int8_errors(*inference.model, *inference.copies, int8->skip, tensors);
  if (arguments.json) {
    nlohmann::ordered_json object = {{"num_samples", batch.size()}, {"all", errors.all}};
    for (const auto& [layer, error] : errors.layers) object["layers"][layer] = error;
    say_as_is("{}\n", json_text(object));
    return;
  }
  say("change of the outputs of {} samples, of their size, with one layer in 8-bit integers:\n",
      batch.size());
  for (const auto& [layer, error] : errors.layers) say("{:<28} {:.5f}\n", layer, error);
  say("{:<28} {:.5f}\n", "all but int8.skip", errors.all);
}

// Each rank evaluates its part of the data; the first one prints what all of them found.
void evaluate_in(parallel::World& world, const EvalArguments& arguments,
                 const train::Inference& inference) {
  const auto& config = *inference.config;
  const auto mesh = train::make_mesh(config, world);
  if (arguments.has_knn) return run_knn(arguments, inference, world);
  const auto source =
      train::open_validation_data(config, inference.class_names, train::data_share(mesh));
  if (!source.loader) fail<ConfigError>("data.val is missing; expected a data set to evaluate on");
  const auto task = train::make_task(config.task, *inference.model);
  ProgressLine progress(progress_mode(arguments, world));
  const nn::SamplesApartScope samples_apart;
  const auto evaluation =
      train::evaluate(*inference.model, *task, *source.loader, inference.compute,
                      {.on_progress =
                           [&](int64_t done, int64_t total) {
                             progress.update(fmt::format("evaluating {}/{}", done, total));
                           },
                       .ranks = &mesh.data_parallel()});
  progress.clear();
  std::array left_out = {static_cast<double>(source.loader->take_skipped_rows())};
  parallel::sum_over_ranks(mesh.data_parallel(), left_out, "samples left out");
  if (world.is_first()) {
    print(evaluation->metrics(), evaluation->num_samples(), std::llround(left_out[0]),
          arguments.json);
  }
}

void run(EvalArguments& arguments) {
  arguments.inference.settle(arguments.inference.options.overrides);
  if (arguments.has_int8_errors) {  // which the roundings of bfloat16 would hide
    arguments.inference.options.int8_rest = "float32";
  }
  auto inference = arguments.inference.load().loaded();
  if (!inference.config) {
    fail<ConfigError>(
        "{}: no recipe stands with these weights, so there is no data to evaluate on; give a run "
        "folder, a weights file that a run wrote, or the data: data.val.format=folder "
        "data.val.path=photos",
        arguments.inference.name());
  }
  if (arguments.has_int8_errors) return run_int8_errors(arguments, inference);
  inference.config->parallel = {};  // each process has the whole model, however it was trained
  run_in_world(*inference.config,
               [&](parallel::World& world) { evaluate_in(world, arguments, inference); });
}

}  // namespace

void add_eval(Command app) {
  auto command = app.add_command("eval", "Metrics of a model on its validation data");
  auto arguments = std::make_shared<EvalArguments>();
  add_inference_options(command, arguments->inference);
  add_overrides(command, arguments->inference.options.overrides, "data.val.path=photos");
  command.add_flag("--knn", arguments->has_knn,
                   "classify the samples of data.val by the nearest of data.train, on the model's "
                   "features");
  command.add_option("--knn-k", arguments->knn.k, "numbers of neighbours, such as 10,20")
      .delimiter(',')
      .one_word()
      .positive()
      .show_default();
  command
      .add_option("--knn-temperature", arguments->knn.temperature,
                  "a neighbour's vote is exp(cosine / temperature)")
      .positive()
      .show_default();
  command.add_flag("--int8-errors", arguments->has_int8_errors,
                   "with --dtype int8: how far each layer's 8-bit integers alone move the outputs, "
                   "the worst first, on the first batch of data.val; see --int8-skip");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea eval runs/fashion_mnist/vit --checkpoint best --json",
                    "fovea eval runs/dinov2 --knn --knn-k 10,20",
                    "fovea eval runs/fashion_mnist/vit --dtype int8 --int8-errors"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
