// BioNeMo-Vision's Hydra configuration.
#include "fovea/recipe_import/bionemo.h"

#include <fmt/format.h>

#include <map>

namespace fovea::recipe_import {
namespace {

// Of the mesh: more than one of them is another recipe.
ImportRule mesh_rule(const std::string& target, const std::string& note) {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode&) {
            const auto count = in.number(key, 1);
            if (count <= 1) return in.mapped(target, "the default");
            in.set(target, count);
            in.changed(target, note);
          }};
}

bool has_transformer_engine(const Importer& in) {
  return in.flag("model.transformer_engine", false);
}

// What TransformerEngine's layer has not, so that the model is without it there, whatever it says.
ImportRule without_te(const std::string& target, const std::string& off) {
  return {"", "", [=](Importer& in, const std::string&, const ConfigNode& value) {
            if (has_transformer_engine(in)) {
              in.set(target, off);
              return in.changed(target, off + ": TransformerEngine's layers have none");
            }
            if (value.kind == ConfigNode::Kind::kNull) return in.mapped(target, "the default");
            in.set(target, value);
            in.mapped(target);
          }};
}

ImportRules vit_rules() {
  ImportRules rules;
  for (const auto* key : {"img_size",        "patch_size",
                          "in_chans",        "num_classes",
                          "global_pool",     "embed_dim",
                          "depth",           "num_heads",
                          "mlp_ratio",       "qkv_bias",
                          "proj_bias",       "qk_norm",
                          "scale_attn_norm", "scale_mlp_norm",
                          "init_values",     "class_token",
                          "no_embed_class",  "reg_tokens",
                          "pre_norm",        "final_norm",
                          "fc_norm",         "pool_include_prefix",
                          "drop_rate",       "pos_drop_rate",
                          "proj_drop_rate",  "attn_drop_rate",
                          "drop_path_rate"}) {
    rules[std::string("model.vit.") + key] = to(std::string("model.") + key);
  }
  rules["model.vit.patch_drop_rate"] =
      to("model.patch_drop_rate", "patches are left out, not replaced by zeros");
  rules["model.vit.pos_embed"] = {
      "", "", [](Importer& in, const std::string& key, const ConfigNode&) {
        in.set("model.pos_embed", in.flag(key, true) ? "learn" : "none");
        in.changed("model.pos_embed", "learn or none");
      }};
  rules["model.vit.weight_init"] = {"", "",
                                    [](Importer& in, const std::string& key, const ConfigNode&) {
                                      const auto scheme = in.text(key, "timm");
                                      in.set("model.weight_init", scheme.empty() ? "timm" : scheme);
                                      in.changed("model.weight_init", "null and '' are timm");
                                    }};
  rules["model.vit.init_variance_rescale"] = to("model.fix_init");
  for (const auto& [key, off] : std::map<std::string, std::string>{{"qk_norm", "false"},
                                                                   {"scale_attn_norm", "false"},
                                                                   {"scale_mlp_norm", "false"},
                                                                   {"init_values", "null"},
                                                                   {"drop_path_rate", "0"}}) {
    rules["model.vit." + key] = without_te("model." + key, off);
  }
  rules["model.vit.proj_drop_rate"] = {
      "", "", [](Importer& in, const std::string& key, const ConfigNode&) {
        const bool is_te = has_transformer_engine(in);
        in.set("model.proj_drop_rate", in.number(is_te ? "model.vit.drop_rate" : key, 0));
        is_te ? in.changed("model.proj_drop_rate", "drop_rate, as TransformerEngine's layers")
              : in.mapped("model.proj_drop_rate");
      }};
  rules["model.transformer_engine"] = {
      "", "", [](Importer& in, const std::string& key, const ConfigNode&) {
        if (!in.flag(key, false)) return in.mapped("", "off, as here");
        in.set("model.act_layer", "gelu_tanh");
        in.changed("model.act_layer",
                   "its layers' gelu is the tanh approximation; their dropout stands behind "
                   "attention and MLP alone, here within the MLP too");
      }};
  rules["model.channels_last"] = refuse_unless("false", "the layout of images is one");
  return rules;
}

// By number, or by what is shared out.
void zero_of_bionemo(Importer& in, const std::string& key, const ConfigNode& /*value*/) {
  const auto text = in.text(key);
  const std::map<std::string, std::string> levels = {
      {"1", "1"},     {"2", "2"},           {"3", "3"},
      {"optim", "1"}, {"optim_grads", "2"}, {"optim_grads_params", "3"}};
  const auto level = levels.find(text);
  if (level == levels.end()) return in.changed("parallel.dp_shard", "1: nothing is shared out");
  in.set("parallel.zero", level->second);
  in.mapped("parallel.zero");
}

// By number, or by what is shared out over the copies; of one copy there is nothing to share out.
void outer_of_bionemo(Importer& in, const std::string& key, const ConfigNode& /*value*/) {
  const auto text = in.text(key);
  const bool is_off = text.empty() || text == "0" || text == "no_shard";
  if (is_off || in.number("distributed.dp_outer", 1) <= 1) {
    return in.mapped("", is_off ? "off, as here" : "there is one copy (distributed.dp_outer)");
  }
  if (text != "1" && text != "optim") {
    return in.refused(fmt::format("found {}; expected no_shard (0) or optim (1)", text));
  }
  in.set("parallel.shard_outer", "optimizer");
  in.mapped("parallel.shard_outer");
}

// Of the run in Weights & Biases, where it is asked for.
ImportRule wandb_rule(const std::string& target) {
  return {"", "", [=](Importer& in, const std::string&, const ConfigNode& value) {
            if (!in.flag("profiling.wandb", false)) return in.mapped("", "profiling.wandb is off");
            if (target == "log.wandb") {
              return in.has("profiling.wandb_kwargs.mode") ? in.mapped(target)
                                                           : in.changed(target, kWandbMode);
            }
            if (value.kind != ConfigNode::Kind::kScalar) return in.mapped(target, "the default");
            in.set_text(target, value.scalar);
            in.mapped(target);
          }};
}

ImportRules training_rules() {
  return {
      {"optimizer.lr", to("optim.lr")},
      {"optimizer.betas", to("optim.betas")},
      {"optimizer.eps", to("optim.eps")},
      {"optimizer.weight_decay",
       to("optim.weight_decay", "with decay_all: on biases, norms and embeddings too, as there")},
      {"distributed.dp_outer", part_of("data.global_batch_size", "counted in the global batch")},
      {"distributed.dp_shard",
       part_of("parallel.dp_shard", "where it is more than 1; counted in the global batch too")},
      {"distributed.cp",
       mesh_rule("parallel.cp", "tokens are shared out; there the model does not know of it yet")},
      {"distributed.tp",
       mesh_rule("parallel.tp", "each layer is shared out; there those of TransformerEngine are")},
      {"fsdp.init_model_with_meta_device",
       needless("models are made without memory by themselves")},
      {"fsdp.zero_dp_strategy", {.target = "", .note = "", .apply = zero_of_bionemo}},
      {"fsdp.fsdp_unit_modules",
       needless("weights are gathered block by block, or by parallel.min_num_params")},
      {"fsdp.outer_dp_sharding_strategy", {.target = "", .note = "", .apply = outer_of_bionemo}},
      {"fsdp.grad_reduce_in_fp32",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          in.set("parallel.reduce_dtype", "float32");
          in.mapped("parallel.reduce_dtype",
                    in.flag(key, false) ? "" : "weights are float32 there, so gradients are");
        }}},
      {"fsdp.preserve_fp32_weights", always("true", "master weights are float32")},
      {"fsdp.use_hybrid_fsdp", needless("dp_replicate x dp_shard says it")},
      {"training.steps", to("trainer.max_steps", "one update more is made there")},
      {"training.val_interval",
       to("trainer.eval_every_steps", "and a checkpoint as often, named by its loss")},
      {"training.log_interval", to("log.every_steps")},
      {"training.checkpoint.path", to("run.dir", "the run folder, which holds the checkpoints")},
      {"training.checkpoint.resume_from_metric",
       part_of("checkpoint.best_metric",
               "a run goes on from its latest checkpoint, not from the "
               "best; --checkpoint best evaluates that one")},
      {"inference.checkpoint.path", always("null", "`fovea predict RUN_DIR|WEIGHTS`")},
      {"inference.checkpoint.format", needless("the format is told from the file")},
      {"inference.checkpoint.megatron_fsdp", needless("`module.` is taken off names by itself")},
      {"random.seed", to("run.seed", "weights, order, augmentation and dropout; there the order")},
      {"profiling.torch_memory_profile",
       always("false", "`fovea bench model` and the report measure memory")},
      {"profiling.torch_memory_profile_kwargs.max_entries",
       needless("of torch_memory_profile, which is not here")},
      {"profiling.wandb", wandb_rule("log.wandb")},
      {"profiling.wandb_kwargs.name", wandb_rule("log.wandb.name")},
      {"profiling.wandb_kwargs.project", wandb_rule("log.wandb.project")},
      {"profiling.wandb_kwargs.entity", wandb_rule("log.wandb.entity")},
      {"profiling.wandb_kwargs.mode", wandb_rule("log.wandb.mode")},
      {"profiling.wandb_kwargs.dir", always("null", "it lies in the run folder")},
  };
}

}  // namespace

void import_bionemo(Importer& in) {
  auto rules = vit_rules();
  rules.merge(training_rules());
  rules.merge(bionemo_data_rules());
  in.set("run.dir", "runs/bionemo_vit");
  in.set("model.name", "vit");
  in.set("model.norm_eps", "1e-5");  // torch's default, which its norms have
  if (in.flag("profiling.wandb", false)) {
    in.set("log.wandb.project", "bionemo-recipes");
    in.set("log.wandb.name", "bionemo-vit");
  }
  in.apply(rules);
  in.set("task.name", "classification");
  set_data_of_bionemo(in);
  const double ranks = in.options().num_gpus > 0 ? static_cast<double>(in.options().num_gpus)
                                                 : in.number("distributed.dp_outer", 1) *
                                                       in.number("distributed.dp_shard", 1);
  in.set("data.global_batch_size", in.number("dataset.train.batch_size", 8) * ranks);
  if (in.text("fsdp.zero_dp_strategy") != "0" && in.text("fsdp.zero_dp_strategy") != "no_shard") {
    set_shards(in, "distributed.dp_shard");
  }
  in.set("optim.name", "adamw");
  in.set("optim.decay_all", "true");
  in.set("schedule.name", "cosine");
  in.set("trainer.max_grad_norm", "1.0");  // fixed in its train.py
  in.set("checkpoint.best_metric", "loss");
  in.set("checkpoint.label_metric", "loss");
  in.set("checkpoint.every_steps", in.number("training.val_interval", 500));
}

}  // namespace fovea::recipe_import
