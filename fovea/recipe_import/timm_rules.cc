// What becomes of each of timm's flags.
#include <fmt/format.h>

#include "fovea/recipe_import/timm.h"

namespace fovea::recipe_import {
namespace {

const char* const kNoBatchNorm = "a vision transformer has no batch norm";
const char* const kSteps = "in optimizer steps";

ImportRule refuse_above_zero(const std::string& why) {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode&) {
            in.number(key, 0) > 0 ? in.refused(why) : in.mapped("", "off, as here");
          }};
}

ImportRule naflex_rule() {
  return {"", "", [](Importer& in, const std::string&, const ConfigNode&) {
            if (!in.flag("naflex_loader", false)) return in.mapped("", "naflex_loader is off");
            in.refused(
                "batches are of so many images, not tokens; images of mixed sizes are model "
                "patching: packed with the transform resize_to_patches");
          }};
}

ImportRules timm_data_rules() {
  ImportRules rules = {
      {"positional", part_of("data.train.path, data.val.path", "the folder with train and val")},
      {"data", part_of("data.train.path, data.val.path", "the folder with train and val")},
      {"data_dir", part_of("data.train.path, data.val.path", "the folder with train and val")},
      {"dataset",
       refuse_unless("folder", "other formats: data.train.format, see docs/data_formats.md")},
      {"train_split", part_of("data.train.path", "name of the folder in it")},
      {"val_split", part_of("data.val.path", "name of the folder in it")},
      {"class_map",
       refuse_unless("null", "classes are the folders' names in order; data.train.class_names")},
      {"dataset_download", refuse_unless("false", "nothing is downloaded")},
      {"num_samples", refuse_unless("null", "every sample counts")},
      {"dataset_trust_remote_code", refuse_unless("false", "no code of a data set is run")},
      {"input_img_mode", refuse_unless("RGB", "the model's in_chans decides")},
      {"input_key", refuse_unless("null", "of hfds and wds: data.train.images")},
      {"target_key", refuse_unless("null", "of hfds and wds: data.train.label")},
      {"batch_size", part_of("data.global_batch_size", "of one process there; times their number")},
      {"b", part_of("data.global_batch_size", "of one process there; times their number")},
      {"validation_batch_size", needless(kEvalBatch)},
      {"vb", needless(kEvalBatch)},
      {"validation_batch_size_multiplier", needless(kEvalBatch)},
      {"workers", to("data.threads", "threads, not processes")},
      {"j", to("data.threads", "threads, not processes")},
      {"epoch_repeats", refuse_above_zero("trainer.max_epochs counts passes")},
      {"worker_seeding", needless("each sample has its own random numbers")},
  };
  rules.merge(rules_of_many({"pin_mem", "no_prefetcher", "use_multi_epochs_loader", "prefetcher"},
                            needless("the loader has one way")));
  return rules;
}

ImportRules timm_model_rules() {
  return {
      {"model", part_of("model.preset")},
      {"pretrained",
       refuse_unless("false", "nothing is downloaded; give the file to init.weights")},
      {"pretrained_path", part_of("init.weights")},
      {"initial_checkpoint", part_of("init.weights")},
      {"resume", part_of("init.weights, init.optimizer", "the moments of adamw, without others")},
      {"no_resume_opt", part_of("init.optimizer", "left out where it is true")},
      {"eval_checkpoint", refuse_unless("\"\"", "`fovea eval` is its own command")},
      {"num_classes", to("model.num_classes")},
      {"gp",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          if (!in.has(key)) return in.mapped("model.global_pool", "the default");
          if (in_lower_case(in.text("model", "t2t_vit_14")).starts_with("t2t_vit")) {
            return in.refused("T2T-ViT's head sees the class token");
          }
          in.set("model.global_pool", *in.find(key));
          in.mapped("model.global_pool");
        }}},
      {"img_size", part_of("model.img_size")},
      {"input_size", part_of("model.img_size", "channels, height, width")},
      {"in_chans", to("model.in_chans")},
      {"drop", part_of("model.drop_rate")},
      {"drop_path", to("model.drop_path_rate")},
      {"drop_connect", refuse_unless("null", "an old name of drop_path")},
      {"drop_block", refuse_unless("null", "of convolutional networks")},
      {"grad_checkpointing",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          if (!in.flag(key, false)) return in.mapped("", "off, as here");
          in.changed("parallel.recompute", "block: each block runs a second time, as there");
        }}},
      {"channels_last", refuse_unless("false", "the layout of images is one")},
      {"fast_norm", refuse_unless("false", "norms are computed in float32")},
      {"head_init_scale", refuse_unless("null", "the head starts as model.weight_init says")},
      {"head_init_bias", refuse_unless("null", "the head starts as model.weight_init says")},
      {"model_kwargs", refuse_unless("{}", "expected KEY=VALUE")},
      {"torchcompile", refuse_unless("null", "nothing is compiled at run time")},
      {"torchcompile_mode", refuse_unless("null", "nothing is compiled at run time")},
      {"torchscript", refuse_unless("false", "nothing is compiled at run time")},
      {"fuser", refuse_unless("null", "nothing is compiled at run time")},
      {"device", part_of("device.type", "cuda, cpu or auto")},
      {"device_modules", refuse_unless("null", "the back end is found by itself")},
      {"amp", part_of("device.dtype", "float16, and its scale in trainer.grad_scaler")},
      {"amp_dtype", part_of("device.dtype", "weights stay float32")},
      {"amp_impl", refuse_unless("native", "there is one")},
      {"apex_amp", part_of("device.dtype", "as amp")},
      {"native_amp", part_of("device.dtype", "as amp")},
      {"model_dtype", refuse_unless("null", "master weights are float32")},
      {"synchronize_step", refuse_unless("false", "the loop does not wait")},
      {"no_ddp_bb", refuse_unless("false", "there are no buffers to broadcast")},
  };
}

ImportRule optimizer_rule(const std::string& otherwise) {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode&) {
            const auto there = in_lower_case(in.text(key, otherwise));
            const auto here = optimizer_of_timm(there);
            if (here.empty()) {
              in.refused(
                  fmt::format("{} is not here; the recipe has adamw, and sgd, lamb, "
                              "adafactor and muon are there to choose from",
                              there));
            } else if (there == "adam") {
              in.changed("optim.name", "adamw, whose weight decay is not in the gradient");
            } else if (there == "adafactor" || there == "muon") {
              in.changed("optim.name", "torch's; see docs/optimizers.md");
            } else {
              there == here ? in.mapped("optim.name") : in.changed("optim.name", here);
            }
          }};
}

// Of optimizers that keep moments.
ImportRule moment_rule(const std::string& target, const std::string& otherwise) {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode& value) {
            const auto opt = optimizer_of_timm(in_lower_case(in.text("opt", otherwise)));
            if (!in.has(key)) return in.mapped(target, "the default");
            if (opt == "sgd" || opt == "adafactor")
              return in.refused(fmt::format("{} has no such setting", opt));
            in.set(target, value);
            in.mapped(target);
          }};
}

ImportRule clip_rule() {
  return {"", "", [](Importer& in, const std::string& key, const ConfigNode&) {
            const auto mode = in.text("clip_mode", "norm");
            if (in.number(key, 0) <= 0) return in.mapped("", "off, as here");
            const auto* target = mode == "norm"    ? "trainer.max_grad_norm"
                                 : mode == "value" ? "trainer.max_grad_value"
                                 : mode == "agc"   ? "trainer.max_grad_ratio"
                                                   : nullptr;
            if (target == nullptr) return in.refused("clip_mode is none of norm, value and agc");
            in.set(target, in.number(key, 0));
            in.mapped(target);
          }};
}

ImportRule schedule_rule() {
  return {"", "", [](Importer& in, const std::string& key, const ConfigNode&) {
            const auto there = in_lower_case(in.text(key, "cosine"));
            const auto here = schedule_of_timm(there);
            if (here.empty()) {
              in.refused(
                  fmt::format("{} is not here; the recipe's rate is constant behind the "
                              "warm-up, and cosine, linear, polynomial, step and multistep "
                              "are there to choose from",
                              there));
            } else {
              there == here ? in.mapped("schedule.name") : in.changed("schedule.name", here);
            }
          }};
}

// Of schedules that are gone through more than once.
ImportRule cycle_rule(const std::string& target) {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode& value) {
            const auto schedule = schedule_of_timm(in_lower_case(in.text("sched", "cosine")));
            if (!in.has(key)) return in.mapped(target, "the default");
            if (schedule != "cosine" && schedule != "polynomial")
              return in.refused("of cosine and poly alone");
            in.set(target, value);
            in.mapped(target);
          }};
}

ImportRules timm_optimizer_rules(const TimmDefaults& defaults) {
  return {
      {"opt", optimizer_rule(defaults.optimizer)},
      {"opt_eps", moment_rule("optim.eps", defaults.optimizer)},
      {"opt_betas", moment_rule("optim.betas", defaults.optimizer)},
      {"momentum", part_of("optim.momentum", "of sgd")},
      {"weight_decay", part_of("optim.weight_decay")},
      {"clip_grad", clip_rule()},
      {"clip_mode", part_of("trainer",
                            "norm: max_grad_norm; value: max_grad_value; agc: "
                            "max_grad_ratio")},
      {"layer_decay", to("optim.layer_decay")},
      {"layer_decay_min_scale", to("optim.layer_decay_min_scale")},
      {"layer_decay_no_opt_scale", refuse_unless("null", "every layer that counts is optimised")},
      {"opt_kwargs", refuse_unless("{}", "expected KEY=VALUE")},
      {"opt_foreach", refuse_unless("null", "parameters lie in one piece of memory")},
      {"sched", schedule_rule()},
      {"sched_on_updates", part_of("schedule", "always: the rate changes with each update")},
      {"lr", part_of("optim.lr")},
      {"lr_base", part_of("optim.lr", "times the batch over lr_base_size")},
      {"lr_base_size", part_of("optim.lr")},
      {"lr_base_scale", part_of("optim.lr")},
      {"lr_noise", refuse_unless("null", "the rate has no noise")},
      {"lr_noise_pct", needless("of lr_noise, which is not here")},
      {"lr_noise_std", needless("of lr_noise, which is not here")},
      {"lr_cycle_mul", cycle_rule("schedule.cycle_mul")},
      {"lr_cycle_decay", part_of("schedule.cycle_decay", "where there is more than one cycle")},
      {"lr_cycle_limit", cycle_rule("schedule.cycle_limit")},
      {"lr_k_decay", cycle_rule("schedule.k_decay")},
      {"warmup_lr", part_of("schedule.warmup_lr")},
      {"min_lr", part_of("schedule.min_lr")},
      {"epochs",
       part_of("trainer.max_epochs", "with the cooldown, and the warm-up where it comes before")},
      {"start_epoch", refuse_unless("null", "a run goes on where it stopped")},
      {"decay_milestones", part_of("schedule.milestones", kSteps)},
      {"decay_epochs", part_of("schedule.decay_steps", kSteps)},
      {"decay_rate", part_of("schedule.decay_rate", "of step and multistep; of poly the power")},
      {"dr", part_of("schedule.decay_rate", "of step and multistep; of poly the power")},
      {"warmup_epochs", part_of("schedule.warmup_steps", kSteps)},
      {"warmup_prefix", to("schedule.warmup_prefix")},
      {"cooldown_epochs", part_of("trainer.max_epochs")},
      {"patience_epochs", needless("of the schedule plateau, which is not here")},
      {"grad_accum_steps", part_of("data.global_batch_size, trainer.micro_batch_size")},
      {"model_ema", part_of("trainer.ema.enabled")},
      {"model_ema_force_cpu", refuse_unless("false", "the average lies with the weights")},
      {"model_ema_decay", part_of("trainer.ema.decay")},
      {"model_ema_warmup", to("trainer.ema.warmup")},
  };
}

ImportRules timm_augmentation_rules() {
  auto rules =
      rules_of_many({"no_aug", "train_crop_mode", "scale", "ratio", "hflip", "vflip",
                     "color_jitter", "color_jitter_prob", "grayscale_prob", "gaussian_blur_prob",
                     "aa", "reprob", "remode", "recount", "mean", "std"},
                    part_of("data.train.transforms"));
  rules.merge(
      rules_of_many({"crop_pct", "crop_mode", "interpolation"}, part_of("data.val.transforms")));
  rules.merge(ImportRules{
      {"train_interpolation", part_of("data.train.transforms", "random is bicubic for the crop")},
      {"resplit", refuse_unless("false", "an erased image has no clean twin")},
      {"aug_repeats",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          const auto repeats = in.number(key, 0);
          if (repeats <= 1) return in.mapped("", "off, as here");
          in.set("data.num_repeats", repeats);
          in.mapped("data.num_repeats");
        }}},
      {"aug_splits", refuse_unless("0", "the loss of several splits is not here")},
      {"jsd", refuse_unless("false", "the loss of several splits is not here")},
      {"jsd_loss", refuse_unless("false", "the loss of several splits is not here")},
      {"bce_loss", part_of("task.loss")},
      {"bce_sum", refuse_unless("false", "the loss is a mean over classes")},
      {"bce_target_thresh", refuse_unless("null", "targets stay as mixing made them")},
      {"bce_pos_weight", refuse_unless("null", "classes weigh the same")},
      {"smoothing", part_of("task.label_smoothing")},
      {"mixup", part_of("data.mixup.mixup_alpha")},
      {"cutmix", part_of("data.mixup.cutmix_alpha")},
      {"cutmix_minmax", to("data.mixup.cutmix_minmax")},
      {"mixup_prob", to("data.mixup.prob")},
      {"mixup_switch_prob", to("data.mixup.switch_prob")},
      {"mixup_mode", to("data.mixup.mode")},
      {"mixup_off_epoch", refuse_unless("0", "mixing stays on to the end")},
  });
  return rules;
}

ImportRule processes_rule() {
  return {"", "", [](Importer& in, const std::string&, const ConfigNode& value) {
            if (in.options().num_gpus > 0) return in.mapped("data.global_batch_size", "as --gpus");
            if (!is_count(value)) return in.refused("how many processes: --gpus says it");
            in.changed("data.global_batch_size", "counted in the global batch");
          }};
}

ImportRules timm_other_rules() {
  auto rules = rules_of_many({"sync_bn", "dist_bn", "split_bn", "bn_tf", "bn_momentum", "bn_eps"},
                             needless(kNoBatchNorm));
  rules.merge(rules_of_many({"train_img_sizes", "train_batch_sizes", "train_size_probs",
                             "train_size_schedule", "variable_batch_loss_scale"},
                            refuse_unless("null", "images of a run have one size")));
  rules.merge(rules_of_many(
      {"naflex_loader", "naflex_train_seq_lens", "naflex_max_seq_len", "naflex_patch_sizes",
       "naflex_patch_size_probs", "naflex_loss_scale", "naflex_patchify_channels_first"},
      naflex_rule()));
  rules.merge(
      rules_of_many({"kd_model_name", "kd_model_kwargs", "kd_distill_type", "kd_temperature",
                     "distill_loss_weight", "task_loss_weight", "kd_loss_type",
                     "kd_student_feature_dim", "kd_token_distill_type", "kd_feature_projection"},
                    refuse_unless("null", "distillation from a teacher is not here")));
  rules.merge(ImportRules{
      {"config", refuse("give the file itself to --from timm")},
      {"c", refuse("give the file itself to --from timm")},
      {"seed", to("run.seed")},
      {"log_interval", to("log.every_steps")},
      {"val_interval", to("trainer.eval_every_epochs")},
      {"recovery_interval", part_of("checkpoint.every_steps", "where it is not 0")},
      {"checkpoint_hist", to("checkpoint.keep", "the latest, and the best besides")},
      {"save_images", refuse_unless("false", "`fovea data inspect` shows batches")},
      {"output", part_of("run.dir")},
      {"experiment", part_of("run.dir")},
      {"eval_metric", to("checkpoint.best_metric")},
      {"tta", refuse_unless("0", "images are evaluated once")},
      {"log_wandb",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          if (!in.flag(key, false)) return in.mapped("", "off, as here");
          in.changed("log.wandb", kWandbMode);
        }}},
      {"wandb_project",
       {"", "",
        [](Importer& in, const std::string&, const ConfigNode&) {
          in.flag("log_wandb", false) ? in.mapped("log.wandb.project")
                                      : in.mapped("", "log_wandb is off");
        }}},
      {"wandb_tags", refuse_unless("[]", "a run has no tags")},
      {"wandb_resume_id", refuse_unless("\"\"", "a run is followed by its folder")},
      {"use_train_size", refuse("of validate.py")},
      {"num_gpu", part_of("data.global_batch_size", "-b is shared out among them there")},
  });
  rules.merge(rules_of_many(
      {"local_rank", "distributed", "world_size", "rank", "dist_url", "dist_backend", "gpu"},
      needless("the launcher's matter, not the recipe's")));
  rules.merge(rules_of_many({"launch.nproc_per_node", "launch.nnodes", "launch.nodes", "launch.N",
                             "launch.ntasks", "launch.n", "launch.np", "launch.ntasks_per_node"},
                            processes_rule()));
  return rules;
}

}  // namespace

ImportRules rules_of_many(const std::vector<const char*>& keys, const ImportRule& rule) {
  ImportRules rules;
  for (const auto* key : keys) rules[key] = rule;
  return rules;
}

ImportRules timm_rules(const TimmDefaults& defaults) {
  auto rules = timm_data_rules();
  rules.merge(kwargs_rules(defaults));
  rules.merge(timm_model_rules());
  rules.merge(timm_optimizer_rules(defaults));
  rules.merge(timm_augmentation_rules());
  rules.merge(timm_other_rules());
  return rules;
}

}  // namespace fovea::recipe_import
