// JABAS and T2T-ViT: main.py with timm's flags of its time.
#include <algorithm>
#include <filesystem>
#include <string>

#include "fovea/config/foreign_yaml.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/recipe_import/timm.h"

namespace fovea::recipe_import {
namespace {

const TimmDefaults kT2t = {"t2t_vit_14", "adamw", 0.05, 1e-6, 1e-5, 10,      10,
                           64,           0.25,    0.8,  1.0,  0.1,  0.99996, "rand-m9-mstd0.5-inc1",
                           true};

// What no recipe says, for another command reads it.
ImportRule read_by(const std::string& command) {
  return {"", "", [command](Importer& in, const std::string&, const ConfigNode&) {
            in.changed("", "not in the recipe: read by " + command);
          }};
}

// Keys of its JSON, which a recipe has under `elastic`.
ImportRules json_rules() {
  ImportRules rules;
  for (const std::string key :
       {"memory_profile_dir", "comp_profile_dir", "comm_profile_dir", "bucket_profile_dir",
        "gpu_cluster_info", "available_servers", "resource_alloc_unit", "homo_servers"}) {
    rules[key] = to("elastic." + key);
  }
  for (const std::string key : {"batch_size_upper_bound", "similarity_target",
                                "batch_size_adjust_rate", "batch_size_adjust_interval", "metric",
                                "enable_adjust", "original_batch_size", "global_lr_modifier"}) {
    rules[key] = to("elastic." + key);
  }
  rules["batch_size_lower_bound"] = {
      "", "", [](Importer& in, const std::string&, const ConfigNode& value) {
        in.set("elastic.batch_size_lower_bound", value);
        in.mapped("elastic.batch_size_lower_bound, data.global_batch_size",
                  "the batch that the run starts with");
      }};
  return rules;
}

// The batch follows the gradients of its halves, which are those of the slots; steps of a batch
// that changes have no fixed number, so that none is left out.
void set_adaptive_batch(Importer& in) {
  const bool has_aim = in.has("similarity_target") || in.text("metric") == "noise";
  if (!has_aim || !in.flag("enable_adjust", true)) return;
  constexpr double kSlots = 8;  // for as many processes
  const double lower = in.number("batch_size_lower_bound", kSlots);
  in.set("parallel.slots", std::max(2.0, std::min(kSlots, lower)));
  in.set("data.drop_last", "false");
  const double local = in.number("local_batch_size", in.number("lbs", 0));
  if (local > 0) in.set("trainer.micro_batch_size", local);  // of passes, however large the batch
  in.say(
      "parallel.slots: halves of a batch are those of its slots, so that any number of "
      "processes up to that of the slots can train it");
}

ImportRules jabas_rules() {
  auto rules = json_rules();
  rules.merge(ImportRules{
      {"local_batch_size", part_of("trainer.micro_batch_size, data.global_batch_size")},
      {"lbs", part_of("trainer.micro_batch_size, data.global_batch_size")},
      {"num_models", part_of("trainer.concurrent_passes, data.global_batch_size",
                             "virtual workers of a process")},
      {"accum_step", part_of("data.global_batch_size", "passes before the last one")},
      {"checkpoint_path", part_of("run.dir")},
      {"num_minibatches", part_of("trainer.max_steps")},
      {"no_validate",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          if (!in.flag(key, false)) return in.mapped("", "off, as here");
          in.set("trainer.eval_every_epochs", 0);
          in.changed("trainer.eval_every_epochs", "0: at the end alone");
        }}},
      {"weight_sync_method", read_by("fovea elastic solve --weight-sync")},
      {"jabas_config_file",
       {"", "",
        [](Importer& in, const std::string&, const ConfigNode&) {
          in.has("similarity_target") || in.has("gpu_cluster_info")
              ? in.changed("elastic", "its keys stand there")
              : in.refused(
                    "it is not there; import the file that it names, and put its section "
                    "elastic into this recipe");
        }}},
      {"elastic_checkpoint_dir", needless("checkpoints lie in the run folder")},
      {"is_elastic_training",
       refuse("train the recipe with launch.elastic=true data.drop_last=false, or by `fovea "
              "elastic scheduler` and `worker`")},
      {"log_dir", needless("lines of the log lie in the run folder")},
  });
  return rules;
}

}  // namespace

void import_jabas(Importer& in) {
  if (in.has("script")) return import_transfer(in);
  auto rules = jabas_rules();
  rules.merge(timm_rules(kT2t));
  in.set("run.dir", "runs/jabas");
  in.apply(rules);
  finish_timm(in, kT2t);
  set_adaptive_batch(in);
}

// What the command does not say itself, of the file that it names where that is there: as a path
// from here, or beside the script.
Settings with_jabas_file(Settings settings, const std::string& script) {
  const auto* const named = settings.values.find("jabas_config_file");
  if (named == nullptr || named->scalar.empty()) return settings;
  namespace fs = std::filesystem;
  for (const auto& path : {fs::path(named->scalar), fs::path(script).parent_path() / named->scalar,
                           fs::path(script).parent_path() / fs::path(named->scalar).filename()}) {
    if (!is_there(path)) continue;
    const auto file = parse_foreign_yaml(read_file(path.string(), kMaxConfigBytes), path.string());
    if (file.kind != ConfigNode::Kind::kMap) {
      fail<ConfigError>("{}: found {}; expected keys such as similarity_target", path.string(),
                        describe_node(file));
    }
    for (size_t i = 0; i < file.keys.size(); ++i) {
      if (settings.values.find(file.keys[i]) == nullptr) {
        settings.values.add(file.keys[i], file.children[i]);
      }
    }
    break;
  }
  return settings;
}

}  // namespace fovea::recipe_import
