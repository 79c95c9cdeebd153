// fovea convert SRC DST
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/models/follow_weights.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/recipe/model_recipe.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/recipe/weights_metadata.h"
#include "fovea/weights/dcp_writer.h"
#include "fovea/weights/read_weights.h"
#include "fovea/weights/torch_writer.h"

namespace fovea::app {
namespace {

struct ConvertArguments {
  std::string source, target, model, from = "auto", to = "timm", key;
  std::string checkpoint = "final";
  bool skip_head = false;
  bool partial = false;
  bool json = false;
};

// Fovea's names and what is said of them.
struct Loaded {
  nn::NamedTensors tensors;
  models::LoadReport report;  // of the model that they were loaded into, where there was one
  weights::FoveaWeights file;
  std::string text;
  train::Metadata metadata = {};  // by which a safetensors file can be used alone
  int64_t num_heads = 0;          // of the model; 0: not known
};

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
  train::InferenceOptions options;
  options.checkpoint = arguments.checkpoint;
  options.device = "cpu";
  const auto inference = train::load_inference(arguments.source, options);
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

Loaded load(const ConvertArguments& arguments) {
  const auto& source = arguments.source;
  const bool is_file = weights::is_weights_folder(source) ||
                       (is_there(source) && !is_folder(source) && !train::is_recipe(source));
  if (!is_file || train::is_run_folder(source)) return load_run(arguments);
  if (arguments.checkpoint != "final") {
    fail<ConfigError>("{}: --checkpoint is for a run folder; leave it out", source);
  }
  if (!arguments.model.empty()) return load_into_model(arguments);
  const bool is_of_run = train::config_of(weights::metadata_of(source), source).has_value();
  return is_of_run && arguments.from == "auto" ? load_run(arguments) : load_file(arguments);
}

// "hf": that of Hugging Face's models which has such parameters.
std::string target_naming(const ConvertArguments& arguments, const nn::NamedTensors& tensors) {
  if (arguments.to == "pt" || arguments.to == "dcp") return "timm";
  if (arguments.to != "hf") return arguments.to;
  const auto has = [&](std::string_view name) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const auto& item) { return item.first == name; });
  };
  if (has("decoder_pred.weight")) return "hf_mae";
  return has("blocks.0.ls1.gamma") ? "hf_dinov2" : "hf_vit";
}

bool is_torch_name(const std::string& path) {
  const auto ending = std::filesystem::path(path).extension();
  return ending == ".pt" || ending == ".pth" || ending == ".bin" || ending == ".ckpt";
}

weights::ConversionReport write(const ConvertArguments& arguments, const Loaded& loaded) {
  const auto& tensors = loaded.tensors;
  const auto check = [&] {
    if (loaded.file.mapped) loaded.file.mapped->check_unchanged();
  };
  const auto naming = target_naming(arguments, tensors);
  auto written = weights::from_fovea(weights::naming_named(naming), tensors, loaded.num_heads);
  if (!written.report.unexpected.empty() && !arguments.partial) {
    fail<CheckpointError>(
        "{}: {} has no name for: {}\nNothing was written. --partial leaves them out",
        arguments.target, weights::naming_named(naming).title,
        fmt::join(written.report.unexpected, ", "));
  }
  if (arguments.to == "dcp") {
    weights::write_dcp_folder(arguments.target, written.tensors, "model", check);
  } else if (arguments.to == "pt" || is_torch_name(arguments.target)) {
    weights::write_torch_file(arguments.target, written.tensors, check);
  } else if (arguments.target.ends_with(".safetensors")) {
    auto metadata = loaded.metadata;
    metadata["format"] = "pt";
    nn::write_tensor_file(arguments.target, written.tensors, metadata, check);
  } else {
    fail<ConfigError>("{}: expected a name that ends in .safetensors, .pt, .pth, .bin or .ckpt",
                      arguments.target);
  }
  return written.report;
}

void print_json(const ConvertArguments& arguments, const Loaded& loaded,
                const weights::ConversionReport& written) {
  const auto& read = loaded.file.report;
  auto left_out = loaded.report.left_out;
  for (const auto* names : {&read.left_out, &loaded.file.left_out})
    left_out.insert(left_out.end(), names->begin(), names->end());
  const auto count = loaded.report.loaded.empty() ? read.same.size() + read.converted.size()
                                                  : loaded.report.loaded.size();
  say_as_is("{}\n",
            json_text(nlohmann::json{{"source", arguments.source},
                                     {"target", arguments.target},
                                     {"from", loaded.file.naming},
                                     {"loaded", count},
                                     {"adapted", loaded.report.adapted},
                                     {"skipped", loaded.report.skipped},
                                     {"converted", read.converted.size()},
                                     {"left_out", left_out},
                                     {"unexpected", read.unexpected},
                                     {"written", written.same.size() + written.converted.size()}}));
}

void run_convert(const ConvertArguments& arguments) {
  const auto loaded = load(arguments);
  weights::ConversionReport written;
  try {
    written = write(arguments, loaded);
  } catch (const Error&) {
    // A source that became shorter shows where its bytes are written.
    if (loaded.file.mapped) loaded.file.mapped->check_unchanged();
    throw;
  }
  if (arguments.json) {
    print_json(arguments, loaded, written);
    return;
  }
  say("{} -> {}\nread:    {}\n", arguments.source, arguments.target, loaded.text);
  if (arguments.to != "timm") say("written: {}\n", written.text());
}

std::vector<std::string> with_names(std::vector<std::string> names, bool is_target) {
  for (const auto& naming : weights::namings()) {
    if (!is_target || naming.is_written) names.emplace_back(naming.name);
  }
  return names;
}

}  // namespace

void add_convert(Command app) {
  auto command = app.add_command("convert", "Weights between formats, strictly, with a report");
  auto arguments = std::make_shared<ConvertArguments>();
  command
      .add_option("source", arguments->source,
                  "weights: a .safetensors, .pt, .pth or .npz file, a DCP folder, a checkpoint of "
                  "t5x, a run "
                  "folder")
      .required()
      .type_name("SRC");
  command
      .add_option("target", arguments->target,
                  "file to write: .safetensors, .pt or .pth; a folder with --to dcp")
      .required()
      .type_name("DST");
  command.add_option(
      "--model", arguments->model,
      "the model that a foreign file belongs to: timm's name (vit_small_patch16_224), a recipe, or "
      "a run folder");
  command.add_option("--from", arguments->from, "names in the source")
      .one_of(with_names({"auto", "hf", "torch"}, false))
      .show_default();
  command
      .add_option("--to", arguments->to,
                  "names to write; pt: timm's, as torch.save does; dcp: timm's, as a "
                  "folder of torch.distributed.checkpoint")
      .one_of(with_names({"hf", "pt", "dcp"}, true))
      .show_default();
  command.add_option("--key", arguments->key,
                     "where the weights lie in a torch file: state_dict_ema");
  command
      .add_option("--checkpoint", arguments->checkpoint, "of a run folder: final, best or latest")
      .one_of({"final", "best", "latest"})
      .show_default();
  command.add_flag("--skip-head", arguments->skip_head,
                   "leave the classifier of a foreign file out");
  command.add_flag("--partial", arguments->partial,
                   "leave out tensors that no table knows, instead of refusing the file");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea convert runs/flowers flowers.safetensors",
                    "fovea convert vit_small.pth small.safetensors --model vit_small_patch16_224",
                    "fovea convert runs/flowers hf.safetensors --to hf"});
  command.callback([arguments] { run_convert(*arguments); });
}

}  // namespace fovea::app
