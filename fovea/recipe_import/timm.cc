// timm's train.py: args.yaml or a command line. T2T-ViT's and JABAS's main.py grew out of an older
// one of the same.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/recipe_import/importer.h"

namespace fovea::recipe_import {
namespace {

// What the two programs take where a flag is not given.
struct TimmDefaults {
  std::string model, optimizer;
  double weight_decay, warmup_lr, min_lr, warmup_epochs, cooldown_epochs;
  double batch_size, reprob, mixup, cutmix, drop_path, ema_decay;
  std::string policy;
  bool ema;
};

const TimmDefaults kTimm = {"resnet50", "sgd", 2e-5, 1e-5, 0,      5,  0,    128,
                            0,          0,     0,    0,    0.9998, "", false};
const TimmDefaults kT2t = {"t2t_vit_14", "adamw", 0.05, 1e-6, 1e-5, 10,      10,
                           32,           0.25,    0.8,  1.0,  0.1,  0.99996, "rand-m9-mstd0.5-inc1",
                           true};

std::string lower(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

const char* const kNoBatchNorm = "a vision transformer has no batch norm";
const char* const kSteps = "in optimizer steps";

ImportRules rules_of_many(const std::vector<const char*>& keys, const ImportRule& rule) {
  ImportRules rules;
  for (const auto* key : keys) rules[key] = rule;
  return rules;
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
      {"validation_batch_size", refuse("an evaluation takes the batches of the training")},
      {"vb", refuse("an evaluation takes the batches of the training")},
      {"validation_batch_size_multiplier",
       refuse("an evaluation takes the batches of the training")},
      {"workers", to("data.threads", "threads, not processes")},
      {"j", to("data.threads", "threads, not processes")},
      {"epoch_repeats", refuse_unless("0", "trainer.max_epochs counts passes")},
      {"worker_seeding", refuse("each sample has its own random numbers")},
  };
  rules.merge(rules_of_many({"pin_mem", "no_prefetcher", "use_multi_epochs_loader", "prefetcher"},
                            refuse("the loader has one way")));
  return rules;
}

ImportRules timm_model_rules() {
  return {
      {"model", part_of("model.preset")},
      {"pretrained",
       refuse_unless("false", "nothing is downloaded; give the file to init.weights")},
      {"pretrained_path", part_of("init.weights")},
      {"initial_checkpoint", part_of("init.weights")},
      {"resume", part_of("init.weights", "the weights alone")},
      {"no_resume_opt", refuse("init.weights takes the weights alone")},
      {"eval_checkpoint", refuse("`fovea eval` is its own command")},
      {"num_classes", to("model.num_classes")},
      {"gp",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          if (!in.has(key)) return in.mapped("model.global_pool", "the default");
          if (lower(in.text("model", "t2t_vit_14")).starts_with("t2t_vit")) {
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
      {"grad_checkpointing", refuse_unless("false", "activations are kept")},
      {"channels_last", refuse_unless("false", "the layout of images is one")},
      {"fast_norm", refuse_unless("false", "norms are computed in float32")},
      {"head_init_scale", refuse_unless("null", "the head starts as model.weight_init says")},
      {"head_init_bias", refuse_unless("null", "the head starts as model.weight_init says")},
      {"model_kwargs", refuse_unless("{}", "keys under model have the same names")},
      {"torchcompile", refuse_unless("null", "nothing is compiled at run time")},
      {"torchcompile_mode", refuse_unless("null", "nothing is compiled at run time")},
      {"torchscript", refuse_unless("false", "nothing is compiled at run time")},
      {"fuser", refuse_unless("null", "nothing is compiled at run time")},
      {"device", part_of("device.type", "cuda, cpu or auto")},
      {"device_modules", refuse_unless("null", "the back end is found by itself")},
      {"amp", part_of("device.dtype", "bfloat16, which needs no scaling")},
      {"amp_dtype", part_of("device.dtype", "float16 is bfloat16 here")},
      {"amp_impl", refuse_unless("native", "there is one")},
      {"apex_amp", part_of("device.dtype", "bfloat16, which needs no scaling")},
      {"native_amp", part_of("device.dtype", "bfloat16, which needs no scaling")},
      {"model_dtype", refuse_unless("null", "master weights are float32")},
      {"synchronize_step", refuse_unless("false", "the loop does not wait")},
      {"no_ddp_bb", refuse_unless("false", "there are no buffers to broadcast")},
  };
}

ImportRules timm_optimizer_rules() {
  return {
      {"opt", part_of("optim.name")},
      {"opt_eps", to("optim.eps")},
      {"opt_betas", to("optim.betas")},
      {"momentum", part_of("optim.momentum", "of sgd")},
      {"weight_decay", part_of("optim.weight_decay")},
      {"clip_grad", part_of("trainer.max_grad_norm", "or max_grad_value, by clip_mode")},
      {"clip_mode", part_of("trainer.max_grad_norm", "norm and value; agc is refused")},
      {"layer_decay", to("optim.layer_decay")},
      {"layer_decay_min_scale", to("optim.layer_decay_min_scale")},
      {"layer_decay_no_opt_scale", refuse_unless("null", "every layer that counts is optimised")},
      {"opt_kwargs", refuse_unless("{}", "keys under optim have the same names")},
      {"opt_foreach", refuse_unless("null", "parameters lie in one piece of memory")},
      {"sched", part_of("schedule.name")},
      {"sched_on_updates", part_of("schedule", "always: the rate changes with each update")},
      {"lr", part_of("optim.lr")},
      {"lr_base", part_of("optim.lr", "times the batch over lr_base_size")},
      {"lr_base_size", part_of("optim.lr")},
      {"lr_base_scale", part_of("optim.lr")},
      {"lr_noise", refuse_unless("null", "the rate has no noise")},
      {"lr_noise_pct", refuse("the rate has no noise")},
      {"lr_noise_std", refuse("the rate has no noise")},
      {"lr_cycle_mul", to("schedule.cycle_mul")},
      {"lr_cycle_decay", part_of("schedule.cycle_decay", "where there is more than one cycle")},
      {"lr_cycle_limit", to("schedule.cycle_limit")},
      {"lr_k_decay", to("schedule.k_decay")},
      {"warmup_lr", part_of("schedule.warmup_lr")},
      {"min_lr", part_of("schedule.min_lr")},
      {"epochs",
       part_of("trainer.max_epochs", "with the cooldown, and the warm-up where it comes before")},
      {"start_epoch", refuse_unless("null", "a run goes on where it stopped")},
      {"decay_milestones", part_of("schedule.milestones", kSteps)},
      {"decay_epochs", part_of("schedule.decay_steps", kSteps)},
      {"decay_rate", part_of("schedule.decay_rate", "of step and multistep")},
      {"dr", part_of("schedule.decay_rate", "of step and multistep")},
      {"warmup_epochs", part_of("schedule.warmup_steps", kSteps)},
      {"warmup_prefix", to("schedule.warmup_prefix")},
      {"cooldown_epochs", part_of("trainer.max_epochs")},
      {"patience_epochs", refuse("of the schedule plateau, which is not here")},
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

ImportRules timm_other_rules() {
  auto rules = rules_of_many({"sync_bn", "dist_bn", "split_bn", "bn_tf", "bn_momentum", "bn_eps"},
                             refuse(kNoBatchNorm));
  rules.merge(rules_of_many({"train_img_sizes", "train_batch_sizes", "train_size_probs",
                             "train_size_schedule", "variable_batch_loss_scale"},
                            refuse_unless("null", "images of a run have one size")));
  rules.merge(rules_of_many(
      {"naflex_loader", "naflex_train_seq_lens", "naflex_max_seq_len", "naflex_patch_sizes",
       "naflex_patch_size_probs", "naflex_loss_scale"},
      refuse("sequences of a run have one length; data.adaptive_patching spends them better")));
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
      {"log_wandb", part_of("log.wandb")},
      {"wandb_project", part_of("log.wandb.project")},
      {"wandb_tags", refuse_unless("[]", "a run has no tags")},
      {"wandb_resume_id", refuse_unless("\"\"", "a run is followed by its folder")},
      {"use_train_size", refuse("of validate.py")},
      {"num_gpu", part_of("data.global_batch_size")},
  });
  rules.merge(rules_of_many(
      {"local_rank", "distributed", "world_size", "rank", "dist_url", "dist_backend", "gpu"},
      refuse("the launcher's matter, not the recipe's")));
  rules.merge(rules_of_many({"launch.nproc_per_node", "launch.nnodes", "launch.nproc-per-node"},
                            part_of("data.global_batch_size", "counted in the global batch")));
  rules.merge(rules_of_many({"launch.node_rank", "launch.master_addr", "launch.master_port",
                             "launch.rdzv_id", "launch.rdzv_backend", "launch.rdzv_endpoint",
                             "launch.standalone", "launch.use_env", "launch.m"},
                            refuse("the launcher's matter, not the recipe's")));
  return rules;
}

ImportRules jabas_rules() {
  const auto solver = refuse("elastic training has no keys in a recipe of this version");
  auto rules = rules_of_many({"memory_profile_dir",
                              "comp_profile_dir",
                              "comm_profile_dir",
                              "bucket_profile_dir",
                              "gpu_cluster_info",
                              "batch_size_upper_bound",
                              "similarity_target",
                              "available_servers",
                              "batch_size_adjust_rate",
                              "batch_size_adjust_interval",
                              "resource_alloc_unit",
                              "homo_servers",
                              "metric",
                              "enable_adjust",
                              "original_batch_size",
                              "global_lr_modifier",
                              "weight_sync_method",
                              "jabas_config_file",
                              "elastic_checkpoint_dir",
                              "is_elastic_training"},
                             solver);
  rules.merge(ImportRules{
      {"batch_size_lower_bound",
       part_of("data.global_batch_size", "the batch that the run starts with; it does not grow")},
      {"local_batch_size", part_of("trainer.micro_batch_size, data.global_batch_size")},
      {"lbs", part_of("trainer.micro_batch_size, data.global_batch_size")},
      {"num_models", part_of("data.global_batch_size", "virtual workers of a process")},
      {"accum_step", part_of("data.global_batch_size", "passes before the last one")},
      {"checkpoint_path", part_of("run.dir")},
      {"num_minibatches", part_of("trainer.max_steps")},
      {"no_validate", refuse_unless("false", "trainer.eval_every_epochs: 0 evaluates at the end")},
  });
  return rules;
}

// Numbers that several keys follow from.
struct TimmRun {
  double processes, batch, passes, epochs, warmup_epochs, cooldown_epochs, steps_per_epoch;
};

TimmRun run_of(const Importer& in, const TimmDefaults& defaults) {
  TimmRun run{};
  run.processes = in.options().num_gpus > 0
                      ? static_cast<double>(in.options().num_gpus)
                      : in.number("launch.nproc_per_node", 1) * in.number("launch.nnodes", 1);
  run.passes = std::max(1.0, in.number("grad_accum_steps", 1));
  double batch = in.number("batch_size", in.number("b", defaults.batch_size)) * run.passes;
  if (in.has("local_batch_size") || in.has("lbs")) {
    run.passes = in.number("num_models", 1) * (in.number("accum_step", 0) + 1);
    batch = in.number("local_batch_size", in.number("lbs", 32)) * run.passes;
  }
  run.batch = in.number("batch_size_lower_bound", batch * run.processes);
  run.epochs = in.number("epochs", 300);
  run.warmup_epochs = in.number("warmup_epochs", defaults.warmup_epochs);
  run.cooldown_epochs = in.number("cooldown_epochs", defaults.cooldown_epochs);
  run.steps_per_epoch =
      std::max(1.0, std::floor(static_cast<double>(in.options().train_samples) / run.batch));
  return run;
}

void set_model_of_timm(Importer& in, const TimmDefaults& defaults) {
  auto name = lower(in.text("model", defaults.model));
  const bool is_t2t = name.starts_with("t2t_vit");
  name = name.substr(0, name.find('.'));  // timm's tag of the weights
  in.set("model.name", is_t2t ? "t2t_vit" : "vit");
  in.set("model.preset", name);
  const auto size = in.numbers("input_size");
  if (size.size() == 3) in.set("model.img_size", fmt::format("[{}, {}]", size[1], size[2]));
  if (in.has("img_size")) in.set("model.img_size", *in.find("img_size"));
  const auto drop_path = in.number("drop_path", defaults.drop_path);
  if (drop_path > 0) in.set("model.drop_path_rate", drop_path);
  if (const auto drop = in.number("drop", 0); drop > 0) {
    in.set(is_t2t ? "model.proj_drop_rate" : "model.drop_rate", drop);
  }
  for (const auto* key : {"pretrained_path", "initial_checkpoint", "resume"}) {
    if (!in.text(key).empty()) in.set_text("init.weights", in.text(key));
  }
  const bool has_amp =
      in.flag("amp", false) || in.flag("native_amp", false) || in.flag("apex_amp", false);
  in.set("device.dtype", has_amp ? "bfloat16" : "float32");
  const auto device = in.text("device");
  in.set("device.type", device.starts_with("cuda") ? "cuda" : device == "cpu" ? "cpu" : "auto");
}

void set_optimizer_of_timm(Importer& in, const TimmDefaults& defaults, const TimmRun& run) {
  auto name = lower(in.text("opt", defaults.optimizer));
  const bool has_nesterov = name == "sgd" || name == "nesterov";
  if (name == "momentum" || name == "nesterov") name = "sgd";
  if (name == "adam") name = "adamw";
  if (name == "lambc") name = "lamb";
  in.set("optim.name", name);
  if (name == "sgd") {
    in.set("optim.nesterov", has_nesterov ? "true" : "false");
    in.set("optim.momentum", in.number("momentum", 0.9));
  }
  in.set("optim.weight_decay", in.number("weight_decay", defaults.weight_decay));
  const bool by_root = name.find("ada") != std::string::npos || name == "lamb";
  const auto scale = in.text("lr_base_scale", by_root ? "sqrt" : "linear");
  const double ratio = run.batch / in.number("lr_base_size", 256);
  const double scaled = in.number("lr_base", 0.1) * (scale == "sqrt" ? std::sqrt(ratio) : ratio);
  in.set("optim.lr", in.number("lr", defaults.optimizer == "adamw" ? 5e-4 : scaled));
  if (const auto clip = in.number("clip_grad", 0); clip > 0) {
    const auto mode = in.text("clip_mode", "norm");
    if (mode == "norm") in.set("trainer.max_grad_norm", clip);
    if (mode == "value") in.set("trainer.max_grad_value", clip);
  }
}

void set_schedule_of_timm(Importer& in, const TimmDefaults& defaults, const TimmRun& run) {
  auto name = in.text("sched", "cosine");
  if (name == "poly") name = "polynomial";
  if (name == "none") name = "constant";
  in.set("schedule.name", name);
  const bool is_prefix = in.flag("warmup_prefix", false);
  in.set("schedule.warmup_steps", std::round(run.warmup_epochs * run.steps_per_epoch));
  in.set("schedule.warmup_lr", in.number("warmup_lr", defaults.warmup_lr));
  if (name == "cosine" || name == "polynomial") {
    in.set("schedule.min_lr", in.number("min_lr", defaults.min_lr));
    in.set("schedule.total_steps", std::round(run.epochs * run.steps_per_epoch));
    const auto limit = in.number("lr_cycle_limit", 1);
    if (limit > 1) in.set("schedule.cycle_decay", in.number("lr_cycle_decay", 0.5));
  }
  if (name == "step") {
    in.set("schedule.decay_steps", std::round(in.number("decay_epochs", 90) * run.steps_per_epoch));
  }
  if (name == "multistep") {
    std::vector<double> steps;
    for (const auto epoch : in.numbers("decay_milestones", {90, 180, 270})) {
      steps.push_back(std::round(epoch * run.steps_per_epoch));
    }
    in.set("schedule.milestones", fmt::format("[{}]", fmt::join(steps, ", ")));
  }
  if (name == "step" || name == "multistep") {
    in.set("schedule.decay_rate", in.number("decay_rate", in.number("dr", 0.1)));
  }
  const auto epochs = run.epochs + run.cooldown_epochs + (is_prefix ? run.warmup_epochs : 0);
  if (in.has("num_minibatches")) {
    in.set("trainer.max_steps", in.number("num_minibatches", 1));
  } else {
    in.set("trainer.max_epochs", epochs);
  }
}

std::string normalize_of(const Importer& in) {
  if (!in.has("mean")) return "{name: normalize, preset: imagenet}";
  return fmt::format("{{name: normalize, mean: [{}], std: [{}]}}",
                     fmt::join(in.numbers("mean"), ", "),
                     fmt::join(in.numbers("std", {0.229, 0.224, 0.225}), ", "));
}

std::string side_of(const Importer& in) {
  const auto size = in.numbers("input_size");
  return fmt::format("{}", in.number("img_size", size.size() == 3 ? size[1] : 224));
}

std::string train_transforms_of_timm(const Importer& in, const TimmDefaults& defaults) {
  auto interpolation = in.text("train_interpolation", "random");
  if (interpolation == "random" || interpolation.empty()) interpolation = "bicubic";
  const auto scale = in.numbers("scale", {0.08, 1.0});
  const auto ratio = in.numbers("ratio", {3.0 / 4, 4.0 / 3});
  if (in.flag("no_aug", false)) {
    return fmt::format(
        "[{{name: resize, size: {0}, interpolation: {1}}}, "
        "{{name: center_crop, size: {0}}}, {2}]",
        side_of(in), interpolation, normalize_of(in));
  }
  const auto crop = in.text("train_crop_mode", "rrc");
  auto list = crop == "rkrc" || crop == "rkrr"
                  ? fmt::format("[{{name: {}, size: {}}}", crop, side_of(in))
                  : fmt::format(
                        "[{{name: random_resized_crop, size: {}, scale: [{}, {}], ratio: [{}, {}], "
                        "interpolation: {}}}",
                        side_of(in), scale.front(), scale.back(), ratio.front(), ratio.back(),
                        interpolation);
  if (const auto p = in.number("hflip", 0.5); p > 0) {
    list += fmt::format(", {{name: horizontal_flip, p: {}}}", p);
  }
  if (const auto p = in.number("vflip", 0); p > 0) {
    list += fmt::format(", {{name: vertical_flip, p: {}}}", p);
  }
  const auto policy = in.text("aa", defaults.policy);
  const auto jitter = in.number("color_jitter", 0.4);
  if (!policy.empty()) list += fmt::format(", {{name: auto_augment, policy: {}}}", policy);
  if (jitter > 0 && (policy.empty() || policy.find("3a") != std::string::npos)) {
    list += fmt::format(
        ", {{name: color_jitter, brightness: {0}, contrast: {0}, saturation: {0}, p: {1}}}", jitter,
        in.number("color_jitter_prob", 1));
  }
  if (const auto p = in.number("grayscale_prob", 0); p > 0) {
    list += fmt::format(", {{name: grayscale, p: {}}}", p);
  }
  if (const auto p = in.number("gaussian_blur_prob", 0); p > 0) {
    list += fmt::format(", {{name: gaussian_blur, p: {}}}", p);
  }
  list += ", " + normalize_of(in);
  if (const auto p = in.number("reprob", defaults.reprob); p > 0) {
    list += fmt::format(", {{name: random_erasing, p: {}, mode: {}, max_count: {}}}", p,
                        in.text("remode", "pixel"), in.number("recount", 1));
  }
  return list + "]";
}

void set_data_of_timm(Importer& in, const TimmDefaults& defaults, const TimmRun& run) {
  const auto folder = in.text("data_dir", in.text("data", in.text("positional", "imagenet")));
  const auto split = [&](const char* key, const char* otherwise) {
    const auto name = in.text(key, otherwise);
    return name == "validation" ? "val" : name;
  };
  in.set("data.train.format", "folder");
  in.set_text("data.train.path", folder + "/" + split("train_split", "train"));
  in.set("data.train.transforms", train_transforms_of_timm(in, defaults));
  in.set("data.val.format", "folder");
  in.set_text("data.val.path", folder + "/" + split("val_split", "val"));
  auto interpolation = in.text("interpolation", "bicubic");
  if (interpolation.empty()) interpolation = "bicubic";
  in.set("data.val.transforms",
         fmt::format("[{{name: eval_crop, size: {}, crop_pct: {}, crop_mode: {}, interpolation: "
                     "{}}}, {}]",
                     side_of(in), in.number("crop_pct", 0.9), in.text("crop_mode", "center"),
                     interpolation, normalize_of(in)));
  in.set("data.global_batch_size", run.batch);
  if (run.passes > 1) {
    in.set("trainer.micro_batch_size", std::max(1.0, run.batch / run.passes / run.processes));
  }
  in.set("data.mixup.mixup_alpha", in.number("mixup", defaults.mixup));
  in.set("data.mixup.cutmix_alpha", in.number("cutmix", defaults.cutmix));
}

void finish_timm(Importer& in, const TimmDefaults& defaults) {
  const auto run = run_of(in, defaults);
  set_model_of_timm(in, defaults);
  in.set("task.name", "classification");
  in.set("task.label_smoothing", in.number("smoothing", 0.1));
  if (in.flag("bce_loss", false)) in.set("task.loss", "bce");
  set_data_of_timm(in, defaults, run);
  set_optimizer_of_timm(in, defaults, run);
  set_schedule_of_timm(in, defaults, run);
  in.set("trainer.ema.enabled", in.flag("model_ema", defaults.ema) ? "true" : "false");
  in.set("trainer.ema.decay", in.number("model_ema_decay", defaults.ema_decay));
  if (const auto steps = in.number("recovery_interval", 0); steps > 0) {
    in.set("checkpoint.every_steps", steps);
  }
  const auto output = in.text("output", in.text("checkpoint_path", "runs"));
  in.set_text("run.dir", (output.empty() ? "runs" : output) + "/" +
                             in.text("experiment", lower(in.text("model", defaults.model))));
  if (in.flag("log_wandb", false)) {
    in.set_text("log.wandb.project", in.text("wandb_project", "fovea"));
  }
}

ImportRules timm_rules() {
  auto rules = timm_data_rules();
  rules.merge(timm_model_rules());
  rules.merge(timm_optimizer_rules());
  rules.merge(timm_augmentation_rules());
  rules.merge(timm_other_rules());
  return rules;
}

}  // namespace

void import_timm(Importer& in) {
  in.set("run.dir", "runs/timm");
  in.apply(timm_rules());
  finish_timm(in, kTimm);
}

void import_jabas(Importer& in) {
  auto rules = jabas_rules();
  rules.merge(timm_rules());
  in.set("run.dir", "runs/jabas");
  in.apply(rules);
  finish_timm(in, kT2t);
}

}  // namespace fovea::recipe_import
