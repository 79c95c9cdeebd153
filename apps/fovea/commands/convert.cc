// fovea convert SRC DST
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/convert_load.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/train/recipe/hub_source.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/weights/dcp_writer.h"
#include "fovea/weights/read_weights.h"
#include "fovea/weights/torch_writer.h"

namespace fovea::app {
namespace {

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

// A safetensors file, or weights alone.
void write_weights(const ConvertArguments& arguments, const Loaded& loaded,
                   const nn::NamedTensors& tensors, const std::function<void()>& check) {
  if (arguments.is_to_dcp()) {
    weights::write_dcp_folder(arguments.target, tensors, "model", check);
  } else if (arguments.is_to_torch()) {
    weights::write_torch_file(arguments.target, tensors, check);
  } else if (arguments.target.ends_with(".safetensors")) {
    auto metadata = loaded.metadata;
    metadata["format"] = "pt";
    nn::write_tensor_file(arguments.target, tensors, metadata, check);
  } else {
    fail<ConfigError>("{}: expected a name that ends in .safetensors, .pt, .pth, .bin or .ckpt",
                      arguments.target);
  }
}

weights::ConversionReport write_converted(const ConvertArguments& arguments, const Loaded& loaded) {
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
  if (!loaded.state) {
    write_weights(arguments, loaded, written.tensors, check);
    return written.report;
  }
  const auto dict = saved_dict(arguments, weights::naming_named(naming), written.tensors,
                               *loaded.state, loaded.num_heads);
  if (arguments.is_to_dcp()) {
    weights::write_dcp_folder(arguments.target, dict, check);
  } else {
    weights::write_torch_file(arguments.target, weights::TorchObject(dict), check);
  }
  return written.report;
}

nlohmann::json optimizer_json(const Loaded& loaded) {
  if (!loaded.state) return nullptr;
  const auto& moments = loaded.state->moments;
  return {{"name", moments.optimizer},
          {"steps", moments.steps},
          {"parameters", moments.names().size()},
          {"left_out", loaded.state->left_out}};
}

// What the source has of an optimizer and the target does not.
std::string hint_of_state(const ConvertArguments& arguments, const Loaded& loaded) {
  if (loaded.state || arguments.weights_only) return "";
  const auto& names = loaded.file.left_out;
  const bool has_state = std::any_of(names.begin(), names.end(), weights::is_optimizer_tensor);
  const bool has_place = arguments.is_to_dcp() || arguments.is_to_torch();
  if (train::is_own_run(arguments.source) && has_place)
    return "state:   weights alone; --optimizer takes a checkpoint with its optimizer's state\n";
  if (!has_state) return "";
  return fmt::format("state:   the optimizer's is left out{}\n",
                     has_place ? "; --optimizer takes it along" : "");
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
                                     {"written", written.same.size() + written.converted.size()},
                                     {"optimizer", optimizer_json(loaded)}}));
}

void run_convert(ConvertArguments arguments) {
  if (train::hub_name_of(arguments.source)) {
    arguments.source = train::weights_path(arguments.source);
  }
  const auto loaded = load_source(arguments);
  weights::ConversionReport written;
  try {
    written = write_converted(arguments, loaded);
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
  if (loaded.state) say("state:   {}\n", loaded.state->text());
  say("{}", hint_of_state(arguments, loaded));
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
                  "t5x, a run folder, or hf-hub:ORG/NAME[@REVISION]")
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
  command.add_flag("--optimizer", arguments->optimizer,
                   "the optimizer's state too, to a .pt file or a DCP folder: of a run its newest "
                   "checkpoint's, or --checkpoint's; between such files and folders it goes along "
                   "without this");
  command.add_flag("--weights-only", arguments->weights_only,
                   "between .pt files and DCP folders: without the optimizer's state");
  command.add_flag("--partial", arguments->partial,
                   "leave out tensors that no table knows, instead of refusing the file");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea convert runs/flowers flowers.safetensors",
                    "fovea convert vit_small.pth small.safetensors --model vit_small_patch16_224",
                    "fovea convert runs/flowers folder --to dcp --optimizer"});
  command.callback([arguments] { run_convert(*arguments); });
}

}  // namespace fovea::app
