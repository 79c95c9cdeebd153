// What the tables of the systems are written with.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fovea/config/node.h"
#include "fovea/recipe_import/recipe_import.h"

namespace fovea::recipe_import {

class Importer;

// What becomes of one key.
struct ImportRule {
  std::string target;  // where the value goes as it is; empty: see `apply` and `note`
  std::string note;    // with a target: how it differs; without: why it is refused
  std::function<void(Importer&, const std::string& key, const ConfigNode& value)> apply = {};
};
using ImportRules = std::map<std::string, ImportRule>;

// A setting whose value only the shell knows that runs the command.
struct UnknownSetting {
  std::string key, value, unknown;  // "lr", "$LR", "$LR"
};

// What a file or a command says.
struct Settings {
  ConfigNode values;  // a flat map
  std::vector<UnknownSetting> unknown = {};
};

class Importer {
 public:
  Importer(Settings settings, const ImportOptions& options);

  const ImportOptions& options() const { return options_; }

  // The file's settings, by the names of the rules; `otherwise` where there is none, or it is null.
  const ConfigNode* find(const std::string& key) const;
  bool has(const std::string& key) const;
  std::string text(const std::string& key, const std::string& otherwise = "") const;
  double number(const std::string& key, double otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::vector<double> numbers(const std::string& key, std::vector<double> otherwise = {}) const;
  // What a setting is that only the shell knows, "$LR"; empty: it is none.
  std::string unknown(const std::string& key) const;

  // Puts a value into the recipe. yaml: any YAML in one line.
  void set(const std::string& target, const std::string& yaml);
  void set(const std::string& target, double value);
  void set(const std::string& target, const ConfigNode& value);
  void set_text(const std::string& target, const std::string& text);  // quoted

  // The row of the key that is being read: one for each.
  void mapped(const std::string& target, const std::string& note = "");
  void changed(const std::string& target, const std::string& note);
  void refused(const std::string& why);

  // A line in front of the table.
  void say(const std::string& line) { remark_ += (remark_.empty() ? "" : "\n") + line; }

  // Reads every key by the rules. A key that has none is refused, as unknown.
  void apply(const ImportRules& rules);
  // Of the file's keys at least one is the system's.
  bool knows_any() const { return num_known_ > 0; }
  ImportedRecipe finish() &&;

 private:
  void add_row(ImportOutcome outcome, const std::string& target, const std::string& note);

  ConfigNode settings_;  // a flat map
  std::vector<UnknownSetting> unknown_;
  ImportOptions options_;
  ConfigNode recipe_;
  std::vector<ImportRow> rows_;
  std::string key_;
  std::string remark_;
  size_t num_known_ = 0;
};

// Rules that many tables need.
ImportRule to(const std::string& target, const std::string& note = "");
ImportRule refuse(const std::string& why);
// Nothing to do where the value is `harmless` (as YAML, or null); else refused.
ImportRule refuse_unless(const std::string& harmless, const std::string& why);
// What is so here at all times: nothing to do where the value is `there` or not said, else refused.
ImportRule always(const std::string& there, const std::string& why);
// Nothing to do, whatever the value: `why`.
ImportRule needless(const std::string& why);
// Of an evaluation's batches, and of Weights & Biases: what every table says.
inline constexpr const char* kEvalBatch =
    "an evaluation takes the batches of the training, and its results are the same with any";
inline constexpr const char* kWandbMode =
    "sent where wandb's client has a key, else offline, in the run folder: log.wandb.mode";
// Read together with other keys, by the function that completes the recipe.
ImportRule part_of(const std::string& target, const std::string& note = "");

// The number that a setting says. Throws ConfigError where it is none.
double as_number(const std::string& key, const ConfigNode& node);

// Nested maps as one, "trainer.max_epochs"; maps that `is_value` names stay values.
ConfigNode flat_settings(const ConfigNode& root,
                         const std::function<bool(const std::string&)>& is_value);
// parallel.dp_shard from `key`, which counts processes; where the run is to have another number of
// them, only if that can be divided by it.
void set_shards(Importer& importer, const std::string& key);

// Each completes the importer by the rules of its system.
void import_ucf(Importer& importer);
void import_bionemo(Importer& importer);
void import_rosetta(Importer& importer);
void import_timm(Importer& importer);
void import_jabas(Importer& importer);

// A command's settings with those of the file that --jabas-config-file names, where that is there.
Settings with_jabas_file(Settings settings, const std::string& script);

}  // namespace fovea::recipe_import
