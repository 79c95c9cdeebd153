// UCF-VIT's YAML. Its keys are those of configs/*/*/base_config.yaml; what they mean there is in
// docs/coming_from_ucf_vit.md.
#include "fovea/recipe_import/ucf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/recipe_import/importer.h"

namespace fovea::recipe_import {
namespace {

struct ToldTask {
  std::string task, sign;
};

// Which of UCF-VIT's scripts the file is for.
ToldTask told_task(const Importer& in) {
  const auto net = [](const char* key) { return std::string(kNet) + key; };
  if (!in.options().task.empty()) return {in.options().task, "--task"};
  if (in.has(net("num_time_steps"))) return {"diffusion", "num_time_steps"};
  if (in.has(net("feature_size"))) return {"unetr", "feature_size"};
  // The segmenters start from a MAE, and describe its decoder and mask_ratio too.
  if (in.has("trainer.use_pretrained_mae_model")) {
    return {"sap", "trainer.use_pretrained_mae_model without feature_size"};
  }
  if (in.has(net("mask_ratio"))) return {"mae", "mask_ratio"};
  if (in.text("data.dataset") == "basic_ct" && in.has("data.num_classes")) {
    return {"sap", "volumes with data.num_classes"};
  }
  return {"classification", "no key of another task"};
}

// Where the keys of the ViT stand in a recipe of this task.
std::string vit_prefix(const Importer& in) {
  return ucf_task(in) == "classification" ? "model." : "model.encoder.";
}

ImportRule vit_key(const std::string& name, const std::string& note = "") {
  return {"", "", [=](Importer& in, const std::string&, const ConfigNode& value) {
            const auto target = vit_prefix(in) + name;
            in.set(target, value);
            note.empty() ? in.mapped(target) : in.changed(target, note);
          }};
}

// A key that one task's model has and others do not.
ImportRule task_key(const std::string& task, const std::string& target,
                    const std::string& note = "") {
  return {"", "", [=](Importer& in, const std::string&, const ConfigNode& value) {
            if (ucf_task(in) != task) {
              in.refused(fmt::format("a {} model has no use of it", ucf_task(in)));
              return;
            }
            in.set(target, value);
            note.empty() ? in.mapped(target) : in.changed(target, note);
          }};
}

ImportRule decoder_key(const std::string& target) {
  return {"", "", [=](Importer& in, const std::string&, const ConfigNode& value) {
            const auto task = ucf_task(in);
            if (task != "mae" && task != "diffusion") {
              in.refused("its decoder has no such part");
              return;
            }
            in.set(target, value);
            in.mapped(target);
          }};
}

bool takes_adaptive(const Importer& in) {
  const auto task = ucf_task(in);
  return task == "sap" || task == "unetr" || task == "classification" || task == "mae";
}

// UCF-VIT's segmenters lay adaptive patches on a square or cube, which a convolution embeds.
bool lays_patches(const Importer& in) {
  const auto task = ucf_task(in);
  return task == "sap" || task == "unetr";
}

bool is_adaptive(const Importer& in) {
  return ucf_task(in) == "sap" ||
         (takes_adaptive(in) && in.flag(std::string(kNet) + "adaptive_patching", false));
}

// Of a grid: learned from sines and cosines.
bool has_pos_table(const Importer& in) { return !is_adaptive(in); }

ImportRule adaptive_key(const std::string& target) {
  return {"", "", [=](Importer& in, const std::string&, const ConfigNode&) {
            const bool is_off = !in.flag(std::string(kNet) + "adaptive_patching", false);
            if (is_adaptive(in)) return in.mapped(target);
            if (is_off) return in.mapped("", "adaptive patches are off");
            in.refused(
                fmt::format("a {} model of this version cuts its images by a grid", ucf_task(in)));
          }};
}

// The same, of a UNETR with a word on where its patches go.
ImportRule adaptive_switch(const std::string& target) {
  const auto rule = adaptive_key(target);
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode& value) {
            if (ucf_task(in) != "unetr" || !is_adaptive(in)) return rule.apply(in, key, value);
            in.changed(target + ", model.adaptive_map",
                       "sequence, as there: patches in their order on a square or cube, wherever "
                       "they lie; the default, image, puts each on its place in the image");
          }};
}

// UNETR interpolates there where a patch is not 16 wide.
bool interpolates(const Importer& in) {
  return ucf_task(in) == "unetr" && !is_adaptive(in) &&
         in.number(std::string(kNet) + "patch_size", 16) != 16;
}

ImportRule patch_size_key() {
  const auto rule = vit_key("patch_size");
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode& value) {
            if (!interpolates(in)) return rule.apply(in, key, value);
            in.set(vit_prefix(in) + "patch_size", value);
            in.changed(vit_prefix(in) + "patch_size, model.upsample",
                       "resize, as there: interpolation before the last block; the default, auto, "
                       "has strides up to the patch size where it is a power of two");
          }};
}

// Whether the recipe gets parallel.dp_shard, see set_shards.
bool shards_of(const Importer& in) {
  const auto shards = in.number("parallelism.fsdp_size", 1);
  return shards > 1 && std::fmod(static_cast<double>(in.options().num_gpus), shards) == 0;
}

ImportRules trainer_rules() {
  return {
      {"trainer.max_epochs", to("trainer.max_epochs")},
      {"trainer.data_type", to("device.dtype")},
      {"trainer.gpu_type", needless("the kernel of the attention follows from the device")},
      {"trainer.checkpoint_path", to("run.dir", "the run folder, which holds the checkpoints")},
      {"trainer.checkpoint_filename", needless("checkpoints have fixed names in the run folder")},
      {"trainer.checkpoint_filename_for_loading",
       {"", "",
        [](Importer& in, const std::string&, const ConfigNode&) {
          if (!in.flag("trainer.resume_from_checkpoint", false)) {
            return in.mapped("", "resume_from_checkpoint is off");
          }
          in.refused(
              "`fovea train` goes on with the run folder's latest checkpoint; weights of other "
              "systems come by init.weights");
        }}},
      {"trainer.resume_from_checkpoint",
       refuse_unless("false", "the same command goes on with a run by itself")},
      {"trainer.use_pretrained_mae_model",
       part_of("init.part", "encoder where it is true, and the encoder's weights alone are taken")},
      {"trainer.mae_checkpoint_path", part_of("init.weights", "folder of the weights file")},
      {"trainer.mae_checkpoint_filename",
       part_of("init.weights", "name of the weights file, to which .ckpt is added, as there")},
      {"trainer.inference_path", needless("`fovea predict --out` names the folder")},
      {"parallelism.fsdp_size",
       part_of("parallel.dp_shard", "where it is more than 1; counted in the global batch too")},
      {"parallelism.simple_ddp_size",
       part_of("data.global_batch_size",
               "counted in the global batch; as many copies as the processes allow are made")},
      {"parallelism.tensor_par_size", to("parallel.tp")},
      {"parallelism.seq_par_size",
       to("parallel.cp", "tokens shared out among processes; UCF-VIT names it, and takes 1 alone")},
      {"parallelism.cpu_offloading",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          if (!in.flag(key, false)) return in.mapped("parallel.cpu_offload", "off, the default");
          if (!shards_of(in)) {
            return in.refused(
                "parallel.cpu_offload goes with parallel.dp_shard above 1 (fsdp_size)");
          }
          in.set("parallel.cpu_offload", "true");
          in.mapped("parallel.cpu_offload");
        }}},
      {"load_balancing.auto_load_balancing",
       needless("`fovea data balance` computes shares; a mix needs none")},
      {"load_balancing.batches_per_rank_epoch",
       needless("data.mix says how long an epoch is; see also `fovea data balance`")},
      {"load_balancing.dataset_group_list",
       needless("a mix deals with sets of any size; see data.mix and `fovea data balance`")},
  };
}

// Its ShardedGradScaler.
ImportRule grad_scaler_key() {
  return {"", "", [](Importer& in, const std::string& key, const ConfigNode&) {
            const std::string scaler = "trainer.grad_scaler.";
            const bool is_on = in.flag(key, false);
            in.set(scaler + "enabled", is_on ? "true" : "false");
            if (!is_on) return in.mapped(scaler + "enabled");
            in.set(scaler + "init_scale", 8192);
            in.set(scaler + "growth_interval", 100);
            in.set(scaler + "min_scale", 128);
            in.changed("trainer.grad_scaler",
                       "start and growth are those of its scripts for FSDP; a scale below 128, at "
                       "which it stays there, ends the run");
          }};
}

ImportRules optimizer_rules() {
  return {
      {"model.lr", to("optim.lr")},
      {"model.beta_1", part_of("optim.betas")},
      {"model.beta_2", part_of("optim.betas")},
      {"model.weight_decay",
       to("optim.weight_decay",
          "with decay_all: on biases, norms and tokens too, as there; also on the embeddings of "
          "positions and variables, which UCF-VIT spares")},
      {"model.warmup_steps",
       to("schedule.warmup_steps", "UCF-VIT arrives at the peak one step earlier")},
      {"model.max_steps",
       to("schedule.total_steps", "stays at the end; there it rises again after it")},
      {"model.warmup_start_lr", to("schedule.warmup_lr")},
      {"model.eta_min", to("schedule.min_lr")},
      {"model.use_grad_scaler", grad_scaler_key()},
      {"model.loss_fn",
       {"", "",
        [](Importer& in, const std::string&, const ConfigNode& value) {
          if (ucf_task(in) == "diffusion" && value.scalar == "MSE") {
            return in.mapped("", "the loss of diffusion here");
          }
          if (ucf_task(in) != "mae") return in.refused("this task has one loss");
          const bool is_masked = value.scalar == "maskMSE";
          in.set("task.loss_on", is_masked ? "masked" : "all");
          in.changed("task.loss_on", is_masked ? "masked" : "all: all tokens count, as there");
        }}},
  };
}

ImportRules net_rules() {
  const auto rule = [](const char* key, ImportRule rule) {
    return std::pair<const std::string, ImportRule>(std::string(kNet) + key, std::move(rule));
  };
  return {
      rule("default_vars",
           part_of("model in_chans", "their number, where data.num_channels_used does not say it")),
      rule("tile_size", tile_size_key()),
      rule("patch_size", patch_size_key()),
      rule("embed_dim", vit_key("embed_dim")),
      rule("depth", vit_key("depth")),
      rule("num_heads", vit_key("num_heads")),
      rule("mlp_ratio", vit_key("mlp_ratio")),
      rule("drop_path", vit_key("drop_path_rate")),
      rule("drop_rate", {"", "",
                         [](Importer& in, const std::string&, const ConfigNode& value) {
                           if (ucf_task(in) == "classification") {
                             in.set("model.drop_rate", value);
                             in.mapped("model.drop_rate");
                           } else if (as_number("drop_rate", value) == 0) {
                             in.mapped("", "0: nothing is dropped");
                           } else {
                             in.refused("it stands before a classifier's head, which is not here");
                           }
                         }}),
      rule("decoder_embed_dim", decoder_key("model.decoder_embed_dim")),
      rule("decoder_depth", decoder_key("model.decoder_depth")),
      rule("decoder_num_heads", decoder_key("model.decoder_num_heads")),
      rule("mlp_ratio_decoder", decoder_key("model.decoder_mlp_ratio")),
      rule("mask_ratio", task_key("mae", "model.mask_ratio")),
      rule("linear_decoder", {"", "",
                              [](Importer& in, const std::string&, const ConfigNode& value) {
                                const auto task = ucf_task(in);
                                if (task == "classification" || task == "sap") {
                                  return in.refused("its decoder has no such part");
                                }
                                in.set("model.linear_decoder", value);
                                in.mapped("model.linear_decoder");
                              }}),
      rule("twoD", part_of("model img_size, data.tiling.two_d")),
      rule("use_varemb", {"", "",
                          [](Importer& in, const std::string&, const ConfigNode&) {
                            if (!has_variables(in))
                              return in.mapped("", "channels are one image's");
                            in.mapped("model variables, share_patch_embed");
                          }}),
      rule("adaptive_patching", adaptive_switch("model patching, data.adaptive_patching")),
      rule("fixed_length", adaptive_key("model fixed_length, data.adaptive_patching.fixed_length")),
      rule("separate_channels", adaptive_key("data.adaptive_patching.separate_channels")),
      rule("use_adaptive_pos_emb", adaptive_key("model pos_embed")),
      rule("num_time_steps", task_key("diffusion", "task.num_time_steps")),
      rule("feature_size", task_key("unetr", "model.feature_size")),
      rule("skip_connection", task_key("unetr", "model.skip_connection")),
  };
}

ImportRules data_rules() {
  return {
      {"data.dataset", dataset_key()},
      {"data.dict_root_dirs", set_key("data.train.path")},
      {"data.dict_start_idx", set_key("data.train start")},
      {"data.dict_end_idx", set_key("data.train end")},
      {"data.dict_buffer_sizes", needless("an epoch is a permutation of all samples; no buffer")},
      {"data.num_channels_available", needless("read with num_channels_used")},
      {"data.num_channels_used", channels_key()},
      {"data.dict_in_variables",
       {"", "",
        [](Importer& in, const std::string&, const ConfigNode&) {
          if (!has_variables(in)) return in.mapped("", "channels are one image's");
          in.changed("data.train.sets variables", "names of the channels of each set");
        }}},
      {"data.batch_size", part_of("data.global_batch_size",
                                  "of one process there; times the data parallel ones here")},
      {"data.num_workers", to("data.threads", "threads, not processes")},
      {"data.pin_memory", needless("batches are pinned where a GPU takes them")},
      {"data.single_channel", single_channel_key()},
      {"data.tile_overlap", tiling_key("data.tiling.tile_overlap")},
      {"data.use_all_data", tiling_key("data.tiling.use_all_data")},
      {"data.num_classes",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode& value) {
          const auto task = ucf_task(in);
          if (task == "mae" || task == "diffusion") {
            return in.refused("this task has no classes");
          }
          if (in.number(key, 0) == 1) {
            return in.refused("one output is a regression, of which there is no task here");
          }
          in.set("model.num_classes", value);
          in.mapped("model.num_classes");
        }}},
      {"dataset_options.imagenet_resize", resize_key()},
  };
}

void finish_model(Importer& in, const std::string& task) {
  const auto net = [&](const char* key) { return std::string(kNet) + key; };
  const std::map<std::string, std::string> models = {{"mae", "mae"},
                                                     {"unetr", "unetr"},
                                                     {"sap", "sap"},
                                                     {"diffusion", "diffusion_vit"},
                                                     {"classification", "vit"}};
  if (!models.contains(task)) {
    fail<ConfigError>("--task {} is unknown; expected mae, unetr, sap, diffusion or classification",
                      task);
  }
  in.set("model.name", models.at(task));
  const auto vit = vit_prefix(in);
  auto sides = in.numbers(net("tile_size"));
  if (in.flag(net("twoD"), true) && sides.size() > 2) sides.resize(2);
  std::reverse(sides.begin(), sides.end());  // x, y, z there; depth, height, width here
  if (!sides.empty()) in.set(vit + "img_size", fmt::format("[{}]", fmt::join(sides, ", ")));
  const auto* variables = in.find(net("default_vars"));
  if (const double channels = ucf_channels(in); channels > 0) in.set(vit + "in_chans", channels);
  if (has_variables(in)) {
    in.set(vit + "variables", *variables);
    if (in.flag("data.single_channel", false)) in.set(vit + "single_channel", "true");
    if (!is_adaptive(in) || lays_patches(in)) in.set(vit + "share_patch_embed", "true");
  }
  if (is_adaptive(in)) {
    in.set(vit + "patching", "adaptive");
    if (!lays_patches(in)) in.set(vit + "patch_norm", "true");  // around the embedding, as there
    const auto length = in.number(net("fixed_length"), 196);
    in.set(vit + "fixed_length", length);
    in.set("data.adaptive_patching.fixed_length", length);
    in.set("data.adaptive_patching.patch_size", in.number(net("patch_size"), 16));
    if (in.flag(net("separate_channels"), false)) {
      in.set("data.adaptive_patching.separate_channels", "true");
    }
    const bool by_size = in.flag(net("use_adaptive_pos_emb"), false);
    const std::string position = by_size ? "size_and_center" : "learn";
    in.set(vit + "pos_embed", position);
    if (task == "mae") in.set("model.decoder_pos_embed", position);
    if (by_size) in.set(vit + "pos_in_pixels", "true");
  }
  if (has_pos_table(in)) in.set(vit + "pos_embed", "sincos_learn");
  if (task == "mae" && !in.flag(net("linear_decoder"), false)) {
    if (has_pos_table(in)) in.set("model.decoder_pos_embed", "sincos_learn");
    in.set("model.decoder_norm_eps", "1e-5");  // torch's default, which its other norms do not have
  }
  if (task == "unetr") {
    in.set(vit + "class_token", "false");
    if (is_adaptive(in)) in.set("model.adaptive_map", "sequence");
    if (interpolates(in)) in.set("model.upsample", "resize");
  }
  if (task == "mae") in.set(vit + "class_token", "false");
  if (task == "diffusion") in.set("model.conditioning", "add");
}

void finish_task(Importer& in, const std::string& task) {
  const std::map<std::string, std::string> tasks = {{"mae", "masked_autoencoding"},
                                                    {"unetr", "segmentation"},
                                                    {"sap", "segmentation"},
                                                    {"diffusion", "diffusion"},
                                                    {"classification", "classification"}};
  in.set("task.name", tasks.at(task));
  if (task == "sap") in.set("task.loss.name", "ucf_dice_bce");
  if (task == "unetr") {
    in.set("task.loss", "{name: dice_ce, squared_pred: true, smooth_nr: 0.0, smooth_dr: 1e-6}");
  }
  in.set("optim.name", "adamw");
  in.set("optim.decay_all", "true");
  in.set("optim.betas",
         fmt::format("[{}, {}]", in.number("model.beta_1", 0.9), in.number("model.beta_2", 0.999)));
  in.set("schedule.name", "cosine");
  if (in.flag("trainer.use_pretrained_mae_model", false)) {
    const auto name = in.text("trainer.mae_checkpoint_filename");
    in.set_text("init.weights", in.text("trainer.mae_checkpoint_path", ".") + "/" + name +
                                    (name.ends_with(".ckpt") ? "" : ".ckpt"));
    in.set("init.part", "encoder");
  }
}

}  // namespace

std::string ucf_task(const Importer& in) { return told_task(in).task; }

bool has_variables(const Importer& in) {
  return in.flag(std::string(kNet) + "use_varemb", false) &&
         in.find(std::string(kNet) + "default_vars") != nullptr;
}

void import_ucf(Importer& in) {
  auto rules = trainer_rules();
  rules.merge(optimizer_rules());
  rules.merge(net_rules());
  rules.merge(data_rules());
  const auto [task, sign] = told_task(in);
  in.say(fmt::format("task: {}, told by {}{}", task, sign,
                     sign == "--task" ? "" : "; --task names another"));
  finish_model(in, task);
  in.set("run.dir", "runs/ucf_vit");
  in.apply(rules);
  finish_task(in, task);
  finish_ucf_data(in);
}

}  // namespace fovea::recipe_import
