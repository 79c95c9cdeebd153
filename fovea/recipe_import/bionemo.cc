// BioNeMo-Vision's Hydra configuration.
#include <fmt/format.h>

#include <map>

#include "fovea/recipe_import/importer.h"

namespace fovea::recipe_import {
namespace {

const char* const kOneProcess = "a recipe has no keys for sharded training";

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
  rules["model.transformer_engine"] =
      refuse_unless("false", "another model: without qk_norm, scale norms and drop path");
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
  if (level == levels.end()) return in.refused("nothing is shared out; parallel.dp_shard: 1");
  in.set("parallel.zero", level->second);
  in.mapped("parallel.zero");
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
      {"distributed.cp", refuse_unless("1", kOneProcess)},
      {"distributed.tp", refuse_unless("1", kOneProcess)},
      {"fsdp.init_model_with_meta_device", refuse("models are made without memory by themselves")},
      {"fsdp.zero_dp_strategy", {.target = "", .note = "", .apply = zero_of_bionemo}},
      {"fsdp.fsdp_unit_modules",
       refuse("weights are gathered block by block, or by parallel.min_num_params")},
      {"fsdp.outer_dp_sharding_strategy",
       refuse("the copies of dp_replicate have equal optimizer states")},
      {"fsdp.grad_reduce_in_fp32", refuse("gradients are summed in float32")},
      {"fsdp.preserve_fp32_weights", refuse("master weights are float32")},
      {"fsdp.use_hybrid_fsdp", refuse("dp_replicate x dp_shard says it")},
      {"training.steps", to("trainer.max_steps", "one update more is made there")},
      {"training.val_interval",
       to("trainer.eval_every_steps", "and a checkpoint as often, named by its loss")},
      {"training.log_interval", to("log.every_steps")},
      {"training.checkpoint.path", to("run.dir", "the run folder, which holds the checkpoints")},
      {"training.checkpoint.resume_from_metric",
       part_of("checkpoint.best_metric",
               "a run goes on from its latest checkpoint, not from the "
               "best; --checkpoint best evaluates that one")},
      {"inference.checkpoint.path", refuse("`fovea predict RUN_DIR|WEIGHTS`")},
      {"inference.checkpoint.format", refuse("the format is told from the file")},
      {"inference.checkpoint.megatron_fsdp", refuse("`module.` is taken off names by itself")},
      {"random.seed", to("run.seed", "weights, order, augmentation and dropout; there the order")},
      {"profiling.torch_memory_profile", refuse("`fovea bench model` measures memory")},
      {"profiling.torch_memory_profile_kwargs.max_entries",
       refuse("`fovea bench model` measures memory")},
      {"profiling.wandb", part_of("log.wandb")},
      {"profiling.wandb_kwargs.name", part_of("log.wandb.name")},
      {"profiling.wandb_kwargs.project", part_of("log.wandb.project")},
      {"profiling.wandb_kwargs.dir", refuse("it lies in the run folder")},
  };
}

ImportRules dataset_rules() {
  ImportRules rules = {
      {"dataset.num_classes", to("model.num_classes")},
      {"dataset.num_workers", to("data.threads", "threads, not processes")},
      {"dataset.train.batch_size",
       part_of("data.global_batch_size", "of one process there; times the data parallel ones")},
      {"dataset.train.shuffle", refuse_unless("true", "training data is always permuted")},
      {"dataset.val.batch_size", refuse("an evaluation takes the batches of the training")},
      {"dataset.val.shuffle", refuse_unless("false", "an evaluation has no order")},
  };
  for (const std::string part : {"dataset.train.", "dataset.val."}) {
    const auto target = part == "dataset.train." ? "data.train" : "data.val";
    rules[part + "root"] = part_of(std::string(target) + ".path",
                                   "the folder that holds train, "
                                   "val and wnids.txt");
    rules[part + "class_map"] =
        refuse("classes are those of wnids.txt, 200 of them; the head has one output for each");
    rules[part + "label_map"] = refuse("val/val_annotations.txt is read by itself");
    rules[part + "class_filter"] = refuse("classes without images do no harm");
  }
  const std::string train = "dataset.train.transform_kwargs.",
                    val = "dataset.val.transform_kwargs.";
  const auto transform = part_of("data.train.transforms");
  for (const auto* key : {"img_size", "scale", "ratio", "hflip", "vflip", "color_jitter", "re_prob",
                          "re_mode", "re_count", "grayscale_prob", "gaussian_blur_prob",
                          "interpolation", "train_crop_mode", "color_jitter_prob"}) {
    rules[train + key] = transform;
  }
  rules[train + "re_num_splits"] = refuse_unless("0", "an erased image has no clean twin");
  rules[train + "normalize"] = refuse_unless("true", "images are normalised");
  rules[train + "separate"] = refuse_unless("false", "transforms are one list");
  rules[train + "patch_size"] = refuse("of patchify, which is off");
  rules[train + "patchify"] = refuse_unless("false", "the model cuts images into patches");
  for (const auto* key : {"img_size", "crop_pct", "crop_mode", "interpolation", "mean", "std"}) {
    rules[val + key] = part_of("data.val.transforms");
  }
  rules[val + "crop_border_pixels"] = refuse_unless("null", "borders come from crop_pct");
  rules[val + "normalize"] = refuse_unless("true", "images are normalised");
  rules[val + "patch_size"] = refuse("of patchify, which is off");
  rules[val + "patchify"] = refuse_unless("false", "the model cuts images into patches");
  return rules;
}

std::string size_of(const Importer& in) {
  return fmt::format("{}", in.number("model.vit.img_size", 224));
}

std::string train_transforms_of_bionemo(const Importer& in) {
  const std::string from = "dataset.train.transform_kwargs.";
  const auto scale = in.numbers(from + "scale", {0.08, 1.0});
  const auto ratio = in.numbers(from + "ratio", {3.0 / 4, 4.0 / 3});
  const auto jitter = in.number(from + "color_jitter", 0.4);
  auto list = fmt::format(
      "[{{name: random_resized_crop, size: {}, scale: [{}, {}], ratio: [{}, {}]}}, "
      "{{name: horizontal_flip, p: {}}}",
      size_of(in), scale.front(), scale.back(), ratio.front(), ratio.back(),
      in.number(from + "hflip", 0.5));
  if (const auto p = in.number(from + "vflip", 0); p > 0) {
    list += fmt::format(", {{name: vertical_flip, p: {}}}", p);
  }
  if (jitter > 0) {
    list += fmt::format(
        ", {{name: color_jitter, brightness: {0}, contrast: {0}, saturation: {0}, p: {1}}}", jitter,
        in.number(from + "color_jitter_prob", 1));
  }
  if (const auto p = in.number(from + "grayscale_prob", 0); p > 0) {
    list += fmt::format(", {{name: grayscale, p: {}}}", p);
  }
  if (const auto p = in.number(from + "gaussian_blur_prob", 0); p > 0) {
    list += fmt::format(", {{name: gaussian_blur, p: {}, kernel_size: 23}}", p);
  }
  list += ", {name: normalize, preset: imagenet}";
  if (const auto p = in.number(from + "re_prob", 0); p > 0) {
    list += fmt::format(", {{name: random_erasing, p: {}, mode: {}, max_count: {}}}", p,
                        in.text(from + "re_mode", "const"), in.number(from + "re_count", 1));
  }
  return list + "]";
}

std::string val_transforms_of_bionemo(const Importer& in) {
  const std::string from = "dataset.val.transform_kwargs.";
  return fmt::format(
      "[{{name: eval_crop, size: {}, crop_pct: {}, crop_mode: {}, interpolation: {}}}, "
      "{{name: normalize, preset: imagenet}}]",
      size_of(in), in.number(from + "crop_pct", 0.875), in.text(from + "crop_mode", "center"),
      in.text(from + "interpolation", "bilinear"));
}

// Its example set is in the layout of Tiny-ImageNet: one folder with train, val and wnids.txt.
std::string tiny_imagenet_folder(const Importer& in) {
  auto root = in.text("dataset.train.root", "data/tiny-imagenet");
  for (const std::string end : {"/", "/train"}) {
    if (root.ends_with(end)) root.resize(root.size() - end.size());
  }
  return root;
}

}  // namespace

void import_bionemo(Importer& in) {
  auto rules = vit_rules();
  rules.merge(training_rules());
  rules.merge(dataset_rules());
  in.set("run.dir", "runs/bionemo_vit");
  in.set("model.name", "vit");
  in.set("model.norm_eps", "1e-5");  // torch's default, which its norms have
  in.apply(rules);
  in.set("task.name", "classification");
  for (const std::string part : {"train", "val"}) {
    in.set("data." + part + ".format", "tiny_imagenet");
    in.set_text("data." + part + ".path", tiny_imagenet_folder(in));
    in.set("data." + part + ".split", part);
  }
  in.set("data.train.transforms", train_transforms_of_bionemo(in));
  in.set("data.val.transforms", val_transforms_of_bionemo(in));
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
  if (in.flag("profiling.wandb", false)) {
    in.set("log.wandb.project", in.text("profiling.wandb_kwargs.project", "bionemo-recipes"));
    in.set("log.wandb.name", in.text("profiling.wandb_kwargs.name", "bionemo-vit"));
  }
}

}  // namespace fovea::recipe_import
