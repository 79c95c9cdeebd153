// JABAS and T2T-ViT: main.py with timm's flags of its time.
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

ImportRules jabas_rules() {
  auto rules = rules_of_many(
      {"memory_profile_dir", "comp_profile_dir", "comm_profile_dir", "bucket_profile_dir",
       "gpu_cluster_info", "available_servers", "resource_alloc_unit"},
      read_by("fovea elastic solve and simulate, as it stands"));
  rules.merge(rules_of_many({"batch_size_upper_bound", "similarity_target",
                             "batch_size_adjust_rate", "batch_size_adjust_interval", "metric",
                             "enable_adjust", "original_batch_size", "global_lr_modifier"},
                            read_by("fovea elastic solve and simulate; a recipe's batch stays as "
                                    "it is")));
  rules.merge(ImportRules{
      {"batch_size_lower_bound",
       part_of("data.global_batch_size", "the batch that the run starts with; it does not grow")},
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
      {"homo_servers", needless("hosts that are alike are told from their devices")},
      {"weight_sync_method", read_by("fovea elastic solve --weight-sync")},
      {"jabas_config_file", read_by("fovea elastic solve and simulate: the file that it names")},
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
}

}  // namespace fovea::recipe_import
