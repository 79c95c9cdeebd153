#include "apps/fovea/commands/convert_load.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/models/follow_weights.h"
#include "fovea/models/registry.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/recipe/model_recipe.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/weights/weights_file.h"

namespace fovea::app {
namespace {

// Weights and state of a run's checkpoint: of the newest one where none is named.
Loaded load_checkpoint(const ConvertArguments& arguments) {
  if (!train::is_own_run(arguments.source)) {
    fail<ConfigError>(
        "{}: no run and no checkpoint of one, so that there is no optimizer's state; leave "
        "--optimizer out",
        arguments.source);
  }
  const bool is_newest = arguments.checkpoint == "final";
  auto run = train::load_run_state(arguments.source, is_newest ? "latest" : arguments.checkpoint);
  Loaded loaded;
  loaded.tensors = run.weights;
  for (const auto& item : loaded.tensors) loaded.report.loaded.push_back(item.first);
  loaded.text = fmt::format("checkpoint of step {}, {}", run.step, loaded.report.text());
  loaded.num_heads = models::num_heads_of(run.config.model);
  loaded.state = state_of_run(run);
  return loaded;
}

// Weights of a run or step-0 weights of a preset.
Loaded load_run(const ConvertArguments& arguments) {
  const auto refuse = [&](const char* option) {
    fail<ConfigError>("{}: {} is for a file of another system; leave it out", arguments.source,
                      option);
  };
  if (!arguments.model.empty()) refuse("--model");
  if (!arguments.key.empty()) refuse("--key");
  if (arguments.from != "auto") refuse("--from");
  if (arguments.skip_head) refuse("--skip-head");
  if (takes_state(arguments, "")) return load_checkpoint(arguments);
  train::InferenceOptions options;
  options.checkpoint = arguments.checkpoint;
  options.device = "cpu";
  auto target = arguments.source;
  if (train::is_own_run(target) && !train::is_run_folder(target)) {  // one of its checkpoints
    options.weights = target;
    target = train::find_checkpoint(target).run_dir;
  }
  const auto inference = train::load_inference(target, options);
  Loaded loaded{models::weights_of(*inference.model), {}, {}, {}};
  const auto config =
      inference.config ? *inference.config : train::recipe_of_model(arguments.source);
  loaded.metadata = train::own_metadata(config, inference.class_names);
  loaded.num_heads = models::num_heads_of(config.model);
  for (const auto& item : loaded.tensors) loaded.report.loaded.push_back(item.first);
  loaded.text = loaded.report.text();
  return loaded;
}

// A foreign file: loaded strictly into the model it is said to be of, so that nothing is written
// that does not fit.
Loaded load_into_model(const ConvertArguments& arguments) {
  auto source = train::find_model(arguments.model);
  Loaded loaded;
  auto& file = loaded.file;
  file = weights::read_weights(arguments.source,
                               {.from = arguments.from,
                                .key = arguments.key,
                                .known = models::names_of_parameters(source.config.model),
                                .num_heads = models::num_heads_of(source.config.model)});
  loaded.num_heads = models::num_heads_of(source.config.model);
  if (source.is_preset && !arguments.skip_head) {
    source.config.model = models::follow_weights(source.config.model, file.tensors).config;
  }
  const auto model = models::build_model(source.config.model);
  model->init_weights(0);
  loaded.report =
      models::load_weights(*model, file, arguments.source, {.skip_head = arguments.skip_head});
  loaded.tensors = models::weights_of(*model);
  loaded.text = loaded.report.text();
  loaded.metadata =
      train::own_metadata(source.config, train::class_names_of(file.metadata, arguments.source));
  return loaded;
}

// A foreign file of which no model is known: every name must be one that its system's table has.
Loaded load_file(const ConvertArguments& arguments) {
  Loaded loaded;
  loaded.file =
      weights::read_weights(arguments.source, {.from = arguments.from, .key = arguments.key});
  const auto& report = loaded.file.report;
  if (loaded.file.naming.empty()) {
    fail<ConfigError>(
        "{}: its names are of no system that is known ({}, ...); name the model with --model, or "
        "the system with --from",
        arguments.source, loaded.file.tensors.empty() ? "none" : loaded.file.tensors.front().first);
  }
  if (!report.unexpected.empty() && !arguments.partial) {
    fail<CheckpointError>("{}: {}\nNothing was written. --partial leaves out what is unexpected",
                          arguments.source, loaded.file.text());
  }
  const std::set<std::string> unexpected(report.unexpected.begin(), report.unexpected.end());
  for (const auto& item : loaded.file.tensors) {
    const bool is_unexpected = unexpected.contains(item.first);
    const bool is_head = item.first.starts_with("head.") || item.first.starts_with("head_dist.");
    if (!is_unexpected && !(arguments.skip_head && is_head)) loaded.tensors.push_back(item);
  }
  loaded.text = loaded.file.text();
  loaded.metadata = loaded.file.metadata;
  return loaded;
}

}  // namespace

Loaded load_source(const ConvertArguments& arguments) {
  const auto& source = arguments.source;
  if (train::is_own_run(source)) return load_run(arguments);
  const bool is_file = weights::is_weights_folder(source) ||
                       (is_there(source) && !is_folder(source) && !train::is_recipe(source));
  if (!is_file) return load_run(arguments);
  if (arguments.checkpoint != "final") {
    fail<ConfigError>("{}: --checkpoint is for a run folder; leave it out", source);
  }
  if (arguments.model.empty()) {
    const bool is_of_run = train::config_of(weights::metadata_of(source), source).has_value();
    if (is_of_run && arguments.from == "auto") return load_run(arguments);
  }
  auto loaded = arguments.model.empty() ? load_file(arguments) : load_into_model(arguments);
  if (!takes_state(arguments, loaded.file.format)) return loaded;
  loaded.state = state_of_file(arguments, loaded.file, loaded.tensors, loaded.num_heads);
  forget_what_is_taken(loaded.file.left_out);
  if (arguments.model.empty()) loaded.text = loaded.file.text();
  return loaded;
}

}  // namespace fovea::app
