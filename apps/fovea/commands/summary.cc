// fovea summary MODEL|RECIPE|RUN_DIR [a.b=c ...]
#include "fovea/models/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/number_text.h"
#include "fovea/models/registry.h"
#include "fovea/train/bench/model_summary.h"
#include "fovea/train/recipe/hub_source.h"
#include "fovea/train/recipe/model_recipe.h"
#include "fovea/train/recipe/recipe_files.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/session.h"

namespace fovea::app {
namespace {

struct SummaryArguments {
  std::string target;
  std::vector<std::string> overrides;
  int64_t batch_size = 0;
  int64_t depth = 3;
  bool json = false;
};

train::TrainConfig recipe_on_hub(const hub::HubName& name,
                                 const std::vector<std::string>& overrides) {
  hub::Repository repository(name);
  auto config = train::fetch_config(repository, overrides);
  if (config) return std::move(config->recipe);
  fail<ConfigError>(
      "{}: no config.json that says which model it is; expected timm's or transformers'",
      name.text());
}

// The recipe; of a model's name, one that has nothing else.
train::TrainConfig find_config(const SummaryArguments& arguments) {
  const auto& target = arguments.target;
  if (train::is_run_folder(target)) return train::load_run_config(target, arguments.overrides);
  if (is_there(target) && !is_folder(target)) {
    return train::load_model_recipe(target, arguments.overrides);
  }
  const auto name = train::hub_name_of(target);
  if (!name && !models::is_model_name(target)) {
    fail<ConfigError>("{}: neither a recipe, nor a run folder, nor the name of a model{}", target,
                      train::or_nearest_target(target));
  }
  auto config = name ? recipe_on_hub(*name, arguments.overrides)
                     : train::recipe_of_model(target, arguments.overrides);
  config.data.global_batch_size = 32;
  return config;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return shape.empty() ? "" : fmt::format("[{}]", fmt::join(shape, ", "));
}

// "4.61 G", "57.8 M".
std::string flops_text(int64_t flops) {
  const auto value = static_cast<double>(flops);
  if (flops == 0) return "";
  if (value >= 1e9) return fmt::format("{:.2f} G", value / 1e9);
  return value >= 1e6 ? fmt::format("{:.2f} M", value / 1e6) : fmt::format("{:.2f} k", value / 1e3);
}

std::string layer_name(const models::LayerSummary& layer) {
  if (layer.path.empty()) return "(model)";
  const auto dot = layer.path.rfind('.');
  const auto last = dot == std::string::npos ? layer.path : layer.path.substr(dot + 1);
  return std::string(static_cast<size_t>(2 * (layer.depth() - 1)), ' ') + last;
}

void print_layers(const models::ModelSummary& summary, int64_t depth) {
  size_t width = 14;  // of the longest kind
  for (const auto& layer : summary.layers) {
    if (layer.depth() <= depth) width = std::max(width, layer.kind.size());
  }
  say("{:<24}{:<{}}{:<22}{:>14}{:>12}\n", "layer", "kind", width + 2, "output", "parameters",
      "FLOPs");
  for (const auto& layer : summary.layers) {
    if (layer.depth() > depth) continue;
    const auto parameters =
        layer.num_parameters > 0 ? format_count(static_cast<double>(layer.num_parameters)) : "";
    say("{:<24}{:<{}}{:<22}{:>14}{:>12}\n", layer_name(layer), layer.kind, width + 2,
        shape_text(layer.output_shape), parameters,
        flops_text(layer.product_flops + layer.norm_flops));
  }
}

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

void print_memory(const char* name, const models::MemoryEstimate& memory) {
  say("  {:<18}{:>10} = weights {} + gradients {} + optimizer {} + average {} + activations {}\n",
      name, bytes_text(memory.total()), bytes_text(memory.weights), bytes_text(memory.gradients),
      bytes_text(memory.optimizer), bytes_text(memory.average), bytes_text(memory.activations));
}

struct Memory {
  int64_t batch_size = 0;
  models::MemoryEstimate train_float32, train_bfloat16, infer_float32, infer_bfloat16;
};

Memory estimate(const models::ModelSummary& summary, const train::TrainConfig& config,
                int64_t batch_size) {
  models::MemoryOptions options{.batch_size = batch_size,
                                .activation_bytes = 4,
                                .optimizer_states = optim::states_per_parameter(config.optim),
                                .has_average = config.trainer.ema.enabled};
  auto halved = options;
  halved.activation_bytes = 2;
  return {batch_size, models::training_memory(summary, options),
          models::training_memory(summary, halved), models::inference_memory(summary, options),
          models::inference_memory(summary, halved)};
}

void print_text(const models::ModelSummary& summary, const Memory& memory, int64_t depth) {
  print_layers(summary, depth);
  const auto flops = static_cast<double>(summary.flops());
  say("\ninput                {}\n", shape_text(summary.input_shape));
  say("parameters           {} ({} trained)\n",
      format_count(static_cast<double>(summary.num_parameters)),
      format_count(static_cast<double>(summary.num_trainable)));
  say("forward pass         {:.3f} GFLOPs, {:.2f} GMACs as timm counts\n", flops / 1e9,
      summary.gmacs());
  say("training             {:.3f} GFLOPs a sample: forward and twice that backward\n",
      3 * flops / 1e9);
  say("memory, estimated, batch {}:\n", memory.batch_size);
  print_memory("train float32", memory.train_float32);
  print_memory("train bfloat16", memory.train_bfloat16);
  print_memory("infer float32", memory.infer_float32);
  print_memory("infer bfloat16", memory.infer_bfloat16);
}

nlohmann::ordered_json to_json(const models::MemoryEstimate& memory) {
  return {{"total_bytes", memory.total()},       {"weights_bytes", memory.weights},
          {"gradients_bytes", memory.gradients}, {"optimizer_bytes", memory.optimizer},
          {"average_bytes", memory.average},     {"activations_bytes", memory.activations}};
}

void print_json(const models::ModelSummary& summary, const Memory& memory, int64_t depth) {
  auto layers = nlohmann::ordered_json::array();
  for (const auto& layer : summary.layers) {
    if (layer.depth() > depth) continue;
    layers.push_back({{"path", layer.path},
                      {"kind", layer.kind},
                      {"output_shape", layer.output_shape},
                      {"parameters", layer.num_parameters},
                      {"flops", layer.product_flops + layer.norm_flops}});
  }
  const nlohmann::ordered_json out = {
      {"input_shape", summary.input_shape},
      {"parameters", summary.num_parameters},
      {"trainable_parameters", summary.num_trainable},
      {"forward_gflops", static_cast<double>(summary.flops()) / 1e9},
      {"forward_gmacs", summary.gmacs()},
      {"training_gflops", 3 * static_cast<double>(summary.flops()) / 1e9},
      {"batch_size", memory.batch_size},
      {"memory",
       {{"train_float32", to_json(memory.train_float32)},
        {"train_bfloat16", to_json(memory.train_bfloat16)},
        {"infer_float32", to_json(memory.infer_float32)},
        {"infer_bfloat16", to_json(memory.infer_bfloat16)}}},
      {"layers", layers}};
  say_as_is("{}\n", json_text(out));
}

void run(const SummaryArguments& arguments) {
  const auto config = find_config(arguments);
  const auto model = models::build_model(config.model, at::kMeta);
  if (!config.trainer.freeze.empty()) train::freeze_parameters(*model, config.trainer.freeze);
  const auto summary = train::summarize_model(config, *model);
  const auto batch_size =
      arguments.batch_size > 0
          ? arguments.batch_size
          : config.trainer.micro_batch_size.value_or(config.data.global_batch_size);
  const auto memory = estimate(summary, config, batch_size);
  if (arguments.json) {
    print_json(summary, memory, arguments.depth);
  } else {
    print_text(summary, memory, arguments.depth);
  }
}

}  // namespace

void add_summary(Command app) {
  auto command = app.add_command(
      "summary", "Layers, shapes, parameters, FLOPs and memory of a model; nothing is allocated");
  auto arguments = std::make_shared<SummaryArguments>();
  command
      .add_option("target", arguments->target,
                  "a model's name, hf-hub:ORG/NAME, a recipe or a run folder")
      .required()
      .type_name("MODEL|RECIPE|RUN_DIR");
  add_overrides(command, arguments->overrides, "model.img_size=384");
  command
      .add_option("--batch-size", arguments->batch_size,
                  "samples of one pass for the memory estimate; 0: the recipe's, else 32")
      .non_negative()
      .show_default();
  command
      .add_option("--depth", arguments->depth,
                  "levels of the layer table: 0 the model, 1 its parts, 2 each block ...")
      .non_negative()
      .show_default();
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea summary vit_base_patch16_224",
                    "fovea summary vit_base_patch16_224 model.img_size=384 --depth 1",
                    "fovea summary recipes/fashion_mnist/vit.yaml --json"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
