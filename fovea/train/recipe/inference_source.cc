#include "fovea/train/recipe/inference_source.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/hub/repository.h"
#include "fovea/models/registry.h"
#include "fovea/train/recipe/hub_source.h"
#include "fovea/train/recipe/init_weights.h"
#include "fovea/train/recipe/model_recipe.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/train/recipe/phase_configs.h"
#include "fovea/train/recipe/recipe_files.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/recipe/weights_metadata.h"
#include "fovea/weights/read_weights.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

// Of each kind of target some options speak. Another one would be passed over without a word.
struct OptionsOfTarget {
  const char* target;
  bool model = false, weights = false, checkpoint = false, overrides = false;
};

void check_options(const std::string& target, const OptionsOfTarget& kind,
                   const InferenceOptions& options) {
  const auto refuse = [&](const char* option) {
    fail<ConfigError>("{}: {} says nothing of {}; leave it out", target, option, kind.target);
  };
  if (!kind.model && !options.model.empty()) refuse("--model");
  if (!kind.weights && !options.weights.empty()) refuse("--weights");
  if (!kind.checkpoint && options.checkpoint != "final") refuse("--checkpoint");
  if (!kind.overrides && !options.overrides.empty()) refuse("a change to the config");
}

std::vector<std::string> class_names_in(const std::string& path) {
  return class_names_of(weights::metadata_of(path), path);
}

// Weights that say themselves of which model they are.
WeightsSource from_weights_file(const std::string& path, const InferenceOptions& options) {
  WeightsSource source;
  source.weights = path;
  const auto metadata = weights::metadata_of(path);
  source.class_names = class_names_of(metadata, path);
  source.config = config_of(metadata, path, options.overrides);
  if (!source.config) {
    fail<ConfigError>(
        "{}: the file does not say of which model it is; name it as timm does (--model "
        "vit_small_patch16_224), or give a recipe: --model RECIPE",
        path);
  }
  source.model = source.config->model;
  source.is_of_file = options.overrides.empty();
  return source;
}

std::string weights_of_run(const fs::path& folder, const std::string& checkpoint) {
  if (checkpoint == "final") return (folder / "weights.safetensors").string();
  const checkpoint::Store store((folder / "checkpoints").string(), {});
  return store.weights_file(checkpoint);
}

WeightsSource from_run(const fs::path& run_folder, const InferenceOptions& options) {
  const auto phases = begun_phase_folders(run_folder.string());
  const auto folder = phases.empty() ? run_folder : fs::path(phases.back());
  WeightsSource source;
  source.config = load_run_config(folder, options.overrides);
  source.model = source.config->model;
  source.weights = options.weights.empty() ? weights_of_run(folder, options.checkpoint)
                                           : weights_path(options.weights);
  source.class_names = class_names_in(source.weights);
  const auto finished = folder / "weights.safetensors";
  if (source.class_names.empty() && is_there(finished))
    source.class_names = class_names_in(finished.string());
  return source;
}

// The model as it is before the first step, or with weights that are named.
WeightsSource from_recipe(const std::string& path, const InferenceOptions& options) {
  auto config = load_model_recipe(path, options.overrides);
  if (!config.phases.empty()) config = resolve_phases(config).front().config;
  WeightsSource source;
  source.model = config.model;
  if (options.weights.empty()) {
    source.weights = weights_path(named_init_weights(config));
    source.load = load_options(config, source.weights);
  } else {  // init says how init.weights are loaded, and nothing of these
    source.weights = weights_path(options.weights);
    source.class_names = class_names_in(source.weights);
  }
  source.config = std::move(config);
  return source;
}

// A preset. With changes to the config, such as the data to evaluate on, it is a recipe that has
// nothing else.
WeightsSource from_name(const std::string& name, const InferenceOptions& options) {
  WeightsSource source;
  source.model = models::named_config(name);
  source.is_preset = source.is_alone = true;
  if (!options.overrides.empty()) {
    source.config = recipe_of_model(name, options.overrides);
    source.model = source.config->model;
  }
  if (options.weights.empty()) return source;
  source.weights = weights_path(options.weights);
  source.class_names = class_names_in(source.weights);
  return source;
}

bool is_weights(const std::string& path) {
  return weights::is_weights_folder(path) || (is_there(path) && !is_folder(path));
}

// A file of weights as the target, with the model that --model names.
WeightsSource from_weights_and_model(const std::string& path, const InferenceOptions& options) {
  auto swapped = options;
  swapped.model.clear();
  swapped.weights = path;
  find_model(options.model);  // throws where it is neither a name, nor a recipe, nor a run
  return find_source(options.model, swapped);
}

// A repository of the hub: Fovea's weights know their model, of others its config.json does.
WeightsSource from_hub(const hub::HubName& name, const InferenceOptions& options) {
  hub::Repository repository(name);
  if (!options.model.empty()) return from_weights_and_model(hub::find_weights(repository), options);
  auto published = fetch_published(repository, options.overrides);
  if (!published.config) return from_weights_file(published.weights, options);
  WeightsSource source;
  source.model = published.config->recipe.model;
  source.is_preset = published.config->is_preset;
  source.is_alone = true;
  source.weights = published.weights;
  if (!options.overrides.empty()) source.config = std::move(published.config->recipe);
  return source;
}

// --model and --weights alone: what the one is of, and what the other has in it.
WeightsSource from_options(const InferenceOptions& options) {
  auto rest = options;
  if (options.weights.empty()) {
    rest.model.clear();
    return find_source(options.model, rest);
  }
  rest.weights.clear();
  const bool is_on_hub = hub_name_of(options.weights).has_value();
  return find_source(is_on_hub ? options.weights : weights_path(options.weights), rest);
}

}  // namespace

WeightsSource find_source(const std::string& target, const InferenceOptions& options) {
  if (target.empty()) return from_options(options);
  if (is_run_folder(target)) {
    const bool has_weights = !options.weights.empty();
    check_options(target,
                  {.target = has_weights ? "a run folder with --weights" : "a run folder",
                   .weights = true,
                   .checkpoint = !has_weights,
                   .overrides = true},
                  options);
    return from_run(target, options);
  }
  if (is_recipe(target)) {
    check_options(target, {.target = "a recipe", .weights = true, .overrides = true}, options);
    return from_recipe(target, options);
  }
  if (is_weights(target)) {
    check_options(target, {.target = "a weights file", .model = true, .overrides = true}, options);
    return options.model.empty() ? from_weights_file(target, options)
                                 : from_weights_and_model(target, options);
  }
  if (const auto name = hub_name_of(target)) {
    check_options(target, {.target = "a repository of the hub", .model = true, .overrides = true},
                  options);
    return from_hub(*name, options);
  }
  if (is_folder(target)) {
    fail<ConfigError>(
        "{}: a folder without config.yaml; expected a run folder, a weights file or a model's name",
        target);
  }
  if (!models::is_model_name(target)) {
    fail<ConfigError>("{}: neither a file, nor a run folder, nor the name of a model{}", target,
                      or_nearest_target(target));
  }
  check_options(target, {.target = "a model's name", .weights = true, .overrides = true}, options);
  return from_name(target, options);
}

bool is_target(const std::string& word, const InferenceOptions& options) {
  if (!options.model.empty() && !options.weights.empty()) return false;
  if (!options.weights.empty()) {
    return is_run_folder(word) || is_recipe(word) || models::is_model_name(word);
  }
  if (options.model.empty()) return true;
  if (weights::is_weights_folder(word) || is_own_run(word) || hub_name_of(word)) return true;
  constexpr std::string_view kEndings[] = {".safetensors", ".pt",  ".pth", ".bin",
                                           ".ckpt",        ".npz", ".tar"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return word.ends_with(ending); });
}

}  // namespace fovea::train
