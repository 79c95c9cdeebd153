// timm's train.py, in parts: T2T-ViT's and JABAS's main.py grew out of an older one of the same.
#pragma once

#include <string>
#include <vector>

#include "fovea/recipe_import/importer.h"
#include "fovea/recipe_import/timm_tags.h"

namespace fovea::recipe_import {

// What a program takes where a flag is not given.
struct TimmDefaults {
  std::string model, optimizer;
  double weight_decay, warmup_lr, min_lr, warmup_epochs, cooldown_epochs;
  double batch_size, reprob, mixup, cutmix, drop_path, ema_decay;
  std::string policy;
  bool ema;
};

// Numbers that several keys follow from.
struct TimmRun {
  double processes, batch, passes, epochs, warmup_epochs, cooldown_epochs, steps_per_epoch;
};

// Names that the recipe takes; empty: there is none that does the same.
std::string optimizer_of_timm(const std::string& opt);
std::string schedule_of_timm(const std::string& sched);

// Digits alone: torchrun takes `gpu` and `1:4` too, and with these none knows how many there are.
bool is_count(const ConfigNode& value);
std::string in_lower_case(std::string text);
ImportRules rules_of_many(const std::vector<const char*>& keys, const ImportRule& rule);

// Flags of key=value pairs, as model_kwargs.KEY.
Settings with_kwargs(Settings settings);
ImportRules kwargs_rules(const TimmDefaults& defaults);
// What the model takes by itself.
ModelInput model_input_of(const Importer& in, const TimmDefaults& defaults);
// transfer_learning.py of T2T-ViT.
void import_transfer(Importer& in);

// Every flag of train.py.
ImportRules timm_rules(const TimmDefaults& defaults);
// Data sets, transforms, batch.
void set_data_of_timm(Importer& in, const TimmDefaults& defaults, const TimmRun& run);
// What several flags say together.
void finish_timm(Importer& in, const TimmDefaults& defaults);

}  // namespace fovea::recipe_import
