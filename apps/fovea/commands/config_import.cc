// fovea config import FILE --from ucf|bionemo|rosetta|timm|jabas
#include "apps/fovea/commands/config_import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/files/atomic_file.h"
#include "fovea/models/vit_config.h"
#include "fovea/recipe_import/recipe_import.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {
namespace {

using recipe_import::ImportedRecipe;

struct ImportArguments {
  std::vector<std::string> files;
  std::string out = "recipe.yaml";
  recipe_import::ImportOptions options;
  bool json = false;
};

// The table as comments, so that the recipe says by itself where it comes from.
std::string commented(const std::string& table) {
  std::string text = "# ";
  for (const char c : table) {
    text += c;
    if (c == '\n') text += "# ";
  }
  text.resize(text.size() - 2);
  return text;
}

const char* name_of(recipe_import::ImportOutcome outcome) {
  switch (outcome) {
    case recipe_import::ImportOutcome::kMapped:
      return "mapped";
    case recipe_import::ImportOutcome::kChanged:
      return "changed";
    case recipe_import::ImportOutcome::kRefused:
      return "refused";
  }
  return "";
}

nlohmann::ordered_json as_json(const std::string& out, const ImportedRecipe& recipe) {
  nlohmann::ordered_json object = {
      {"recipe", out}, {"remark", recipe.remark}, {"keys", nlohmann::json::array()}};
  for (const auto& row : recipe.rows) {
    nlohmann::ordered_json key = {{"key", row.key},
                                  {"value", row.value},
                                  {"outcome", name_of(row.outcome)},
                                  {"target", row.target},
                                  {"note", row.note}};
    if (!row.phase.empty()) key["phase"] = row.phase;
    object["keys"].push_back(std::move(key));
  }
  return object;
}

// Where a recipe goes: --out, and of a loop's turns each in a file of its own beside it.
std::string path_of(const ImportArguments& arguments, const ImportedRecipe& recipe) {
  if (recipe.turn.empty()) return arguments.out;
  const std::filesystem::path out = arguments.out;
  const auto name = out.stem().string() + "_" + recipe.turn + out.extension().string();
  return (out.parent_path() / name).string();
}

void check_recipe(const std::string& files, const ImportedRecipe& recipe) {
  try {
    parse_config<train::TrainConfig>(recipe.yaml, "recipe");
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: what it says is no recipe; nothing was written\n{}", files,
                      error.what());
  }
}

std::string table_of(const ImportedRecipe& recipe) {
  return (recipe.remark.empty() ? "" : recipe.remark + "\n") +
         recipe_import::import_table(recipe.rows);
}

// What timm's command lines leave to the model.
std::optional<recipe_import::ModelInput> input_of_model(const std::string& preset) {
  models::VitConfig model;
  if (!model.apply_preset(preset)) return {};
  recipe_import::ModelInput input;
  input.img_size = model.img_size;
  input.mean = model.input.mean;
  input.std = model.input.std;
  input.crop_pct = model.input.crop_pct;
  input.interpolation = model.input.interpolation;
  input.num_classes = model.num_classes;
  return input;
}

void run_import(const ImportArguments& arguments) {
  auto options = arguments.options;
  options.model_input = input_of_model;
  std::vector<std::string> paths;  // and what is no file changes a key, as on Hydra's command line
  for (const auto& argument : arguments.files) {
    const bool is_change = argument.find('=') != std::string::npos || argument.starts_with('~');
    (is_change && !is_there(argument) ? options.overrides : paths).push_back(argument);
  }
  if (paths.empty()) fail<ConfigError>("found changes alone; expected a file before them");
  const auto recipes = recipe_import::import_recipes(paths, options);
  const auto files = fmt::format("{}", fmt::join(paths, ", "));
  for (const auto& recipe : recipes) {
    check_recipe(files, recipe);
    if (const auto out = path_of(arguments, recipe); is_there(out)) {
      fail<ConfigError>("{} is there already; name another file with --out", out);
    }
  }
  std::vector<std::string> names;
  for (const auto& file : paths)
    names.push_back(printable(std::filesystem::path(file).filename().string()));
  auto objects = nlohmann::ordered_json::array();
  for (const auto& recipe : recipes) {
    const auto out = path_of(arguments, recipe);
    const auto table = table_of(recipe);
    write_file_atomic(out, fmt::format("# From {} by `fovea config import --from {}`.\n{}\n{}",
                                       fmt::join(names, ", "), arguments.options.system,
                                       commented(printable_lines(table)), recipe.yaml));
    if (arguments.json) {
      objects.push_back(as_json(out, recipe));
    } else {
      say("{}{} -> {}\n", table, files, out);
    }
  }
  if (!arguments.json) return;
  say_as_is("{}\n", json_text(objects.size() == 1 ? objects[0]
                                                  : nlohmann::ordered_json{{"recipes", objects}}));
}

}  // namespace

void add_config_import(Command config) {
  auto command = config.add_command(
      "import", "Write a recipe from another system's configuration, with an account of its keys");
  auto arguments = std::make_shared<ImportArguments>();
  command
      .add_option(
          "files", arguments->files,
          "UCF-VIT's or BioNeMo's YAML, Rosetta's gin, timm's args.yaml, JABAS's JSON, or "
          "a text file with the command line of timm, T2T-ViT or JABAS; several, or a "
          "script with several commands, become the phases of one recipe; each turn of a "
          "script's loop becomes a recipe of its own; of bionemo changes too, as Hydra takes them: "
          "a.b=c, +group=name, ~key")
      .required()
      .type_name("FILE...");
  command.add_option("--from", arguments->options.system, "whose it is")
      .required()
      .one_of(recipe_import::import_systems());
  command.add_option("--out", arguments->out, "recipe to write; must not be there yet")
      .show_default()
      .type_name("RECIPE");
  command
      .add_option("--task", arguments->options.task,
                  "of ucf: what its script trains; by default told from the keys")
      .one_of({"classification", "mae", "unetr", "sap", "diffusion"});
  command
      .add_option("--gpus", arguments->options.num_gpus,
                  "processes of the run, each of which takes a batch; 0: as the file says")
      .non_negative()
      .show_default();
  command
      .add_option("--train-samples", arguments->options.train_samples,
                  "size of the training set, by which epochs become steps")
      .positive()
      .show_default();
  command
      .add_option("--gin-search-paths", arguments->options.search_paths,
                  "of rosetta: folders from which on the names of included files are looked for; "
                  "by default the working folder, those around the file, and beside it")
      .delimiter(',')
      .one_word()
      .type_name("DIR,...");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea config import args.yaml --from timm --out recipe.yaml",
                    "fovea config import train.sh --from timm --gpus 8 --out recipe.yaml"});
  command.callback([arguments] { run_import(*arguments); });
}

}  // namespace fovea::app
