// Recipes out of other systems' configurations, with an account of every key.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fovea::recipe_import {

enum class ImportOutcome {
  kMapped,   // says the same here
  kChanged,  // taken over in another form, or with a difference that the note names
  kRefused,  // not taken over; the note says why
};

struct ImportRow {
  std::string key;    // as the other system calls it
  std::string value;  // in one line of YAML
  ImportOutcome outcome = ImportOutcome::kRefused;
  std::string target;  // "optim.lr"; empty where nothing was written
  std::string note;
  std::string phase = {};  // that its file or command became; empty: there is one
};

// What a model of timm takes where no flag says otherwise.
struct ModelInput {
  std::vector<int64_t> img_size = {224, 224};
  std::vector<double> mean = {0.485, 0.456, 0.406}, std = {0.229, 0.224, 0.225};
  double crop_pct = 0.9;
  std::string crop_mode = "center";
  std::string interpolation = "bicubic";
  int64_t num_classes = 1000;
};

struct ImportOptions {
  std::string system = {};  // "ucf", "bionemo", "rosetta", "timm" or "jabas"
  std::string task = {};    // ucf: what its script does; empty: told from the keys
  int64_t num_gpus = 0;     // processes that each take a batch; 0: what the file says, else one
  int64_t train_samples = 1'281'167;           // for counts in epochs that become steps: ImageNet's
  std::vector<std::string> overrides = {};     // bionemo: as on Hydra's command line
  std::vector<std::string> search_paths = {};  // rosetta: gin's, for files that others include
  // By the name without a tag; the models' own table, which this folder does not see.
  std::function<std::optional<ModelInput>(const std::string&)> model_input = {};
};

struct ImportedRecipe {
  std::string yaml;             // holds as a recipe
  std::vector<ImportRow> rows;  // one for each key of the file, in its order
  // What was told from the keys: lines in front of the table, or empty.
  std::string remark = {};
  // The turn of a script's loop that it is, "lr-1e-3", for a file's name; empty: there is one
  // recipe.
  std::string turn = {};
};

// file: UCF-VIT's or BioNeMo's YAML, Rosetta's gin (included files lie beside it), timm's args.yaml
// or a text file with its command line, the same of T2T-ViT and JABAS, or JABAS's JSON. Throws
// ConfigError where the file cannot be read, or says something that no recipe can.
// Several files, or several commands in one script, become the phases of one recipe, in their
// order (docs/phases.md). Each turn of a script's loops is a recipe with a run.dir of its own.
std::vector<ImportedRecipe> import_recipes(const std::vector<std::string>& files,
                                           const ImportOptions& options);
// The same where that is one recipe; else throws ConfigError.
ImportedRecipe import_recipe(const std::vector<std::string>& files, const ImportOptions& options);
ImportedRecipe import_recipe(const std::string& file, const ImportOptions& options);

// "ucf", ... in the order of the documentation.
std::vector<std::string> import_systems();

// A table of three parts: mapped, changed, refused; one for each phase.
std::string import_table(const std::vector<ImportRow>& rows);

}  // namespace fovea::recipe_import
