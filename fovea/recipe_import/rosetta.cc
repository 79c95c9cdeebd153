// Rosetta ViT's gin files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "fovea/recipe_import/importer.h"

namespace fovea::recipe_import {
namespace {

const char* const kProgram = "a function of the program that the file configures";
const char* const kTransforms = "utils.RestoreCheckpointConfig.state_transformation_fns";
const char* const kMacro = "a name for a value, which stands where it is used";

// Of upstream's own program, whose parts are those that the recipe has; another one is refused.
ImportRule program_rule() {
  return {"", "", [](Importer& in, const std::string& key, const ConfigNode& value) {
            const auto text = in.text(key);
            const auto name = text.substr(text.find_last_of("@/") + 1);
            const char* const kParts[] = {"models.ViTModel", "layers.FlaxGViT", "config.",
                                          "wds_utils.",      "dali.",           "dali_utils.",
                                          "partitioning.",   "utils.",          "trainer.Trainer",
                                          "gin_utils.",      "optimizers.chain"};
            const bool is_known = std::any_of(
                std::begin(kParts), std::end(kParts),
                [&](const char* part) { return text.starts_with('@') && name.starts_with(part); });
            const bool is_macro = text.starts_with('%');
            is_known || is_macro || value.kind == ConfigNode::Kind::kNull || text == "None"
                ? in.mapped("", "upstream's program, as this one is")
                : in.refused(kProgram);
          }};
}

ImportRules config_rules() {
  const std::string config = "config.GoogleViTConfig.";
  return {
      {config + "hidden_size", to("model.embed_dim")},
      {config + "num_hidden_layers", to("model.depth")},
      {config + "num_attention_heads", to("model.num_heads")},
      {config + "intermediate_size", part_of("model.mlp_ratio", "over hidden_size")},
      {config + "hidden_dropout_prob",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          in.set("model.proj_drop_rate", in.number(key, 0));
          in.set("model.pos_drop_rate", in.number(key, 0));
          in.changed("model.proj_drop_rate, model.pos_drop_rate", "both");
        }}},
      {config + "attention_probs_dropout_prob", to("model.attn_drop_rate")},
      {config + "patch_size", to("model.patch_size")},
      {config + "image_size", part_of("model.img_size")},
      {config + "encoder_stride", needless("not used there either")},
      {config + "initializer_range", needless("not used there either")},
      {config + "head_bias_init", needless("not used there either: the head starts at zero")},
      {config + "qkv_bias", to("model.qkv_bias")},
      {config + "pre_layernorm", to("model.pre_norm")},
      {config + "classifier",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          const auto kind = in.text(key, "token");
          if (kind != "token" && kind != "gap") {
            return in.refused(kind + ": tokens without pooling; the recipe has token");
          }
          if (kind == "token") {
            in.set("model.global_pool", "token");
            return in.mapped("model.global_pool");
          }
          in.set("model.global_pool", "avg");
          in.set("model.class_token", "false");
          in.set("model.fc_norm", "false");
          in.changed("model.global_pool, model.class_token, model.fc_norm",
                     "gap is avg, without class token, of tokens behind the last norm");
        }}},
      {config + "representation_size",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          in.set("model.representation_size", in.number(key, 0));
          in.changed("model.representation_size", "None is 0: a head of one layer");
        }}},
      {config + "num_classes", to("model.num_classes")},
      {config + "hidden_act",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          const auto kind = in.text(key, "gelu");
          in.set("model.act_layer", kind == "gelu" ? "gelu_tanh" : kind);
          in.changed("model.act_layer", "flax's gelu is the tanh approximation");
        }}},
      {config + "dtype",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          auto kind = in.text(key, "float32");
          kind = kind.substr(kind.find_last_of(".@") + 1);
          in.set("device.dtype", kind);
          in.changed("device.dtype", kind == "float16"
                                         ? "logits and loss stay float32, and losses are scaled, "
                                           "which they are not there (trainer.grad_scaler)"
                                         : "logits and loss stay float32");
        }}},
      {config + "layer_norm_eps", to("model.norm_eps")},
  };
}

ImportRules schedule_rules() {
  const auto schedule = part_of("schedule");
  ImportRules rules;
  for (const auto* key : {"init_value", "peak_value", "warmup_steps", "decay_steps", "end_value"}) {
    rules[std::string("optax.warmup_cosine_decay_schedule.") + key] = schedule;
  }
  for (const auto* key : {"init_value", "decay_steps", "alpha"}) {
    rules[std::string("optax.cosine_decay_schedule.") + key] = schedule;
  }
  rules["optax.clip_by_global_norm.max_norm"] = to("trainer.max_grad_norm");
  for (const std::string name : {"adamw", "sgd", "adafactor", "lamb"}) {
    rules["optax." + name + ".learning_rate"] = schedule;
  }
  rules["optax.adamw.weight_decay"] =
      to("optim.weight_decay", "with decay_all: on biases, norms and embeddings too, as optax");
  rules["optax.adamw.b1"] = rules["optax.adamw.b2"] = part_of("optim.betas");
  rules["optax.adamw.eps"] = to("optim.eps");
  rules["optax.sgd.momentum"] = to("optim.momentum");
  rules["optax.sgd.nesterov"] = to("optim.nesterov");
  rules["optimizers.chain.transformations"] = part_of("optim.name, trainer.max_grad_norm");
  return rules;
}

// Processes that share out one model: a number, or the sides of a mesh of them.
ImportRule partitions_rule() {
  return {"", "", [](Importer& in, const std::string& key, const ConfigNode&) {
            double count = 1;
            for (const auto side : in.numbers(key, {1})) count *= side;
            if (count <= 1) return in.mapped("parallel.tp", "the default");
            in.set("parallel.tp", count);
            in.mapped("parallel.tp");
          }};
}

// A folder with an index of each tar, as `fovea data index --out` writes it too.
ImportRule index_rule(const std::string& target) {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode&) {
            const auto folder = in.text(key);
            if (folder.empty() || folder.starts_with("%")) return in.mapped(target, "the default");
            in.set_text(target, folder);
            in.mapped(target);
          }};
}

std::string optimizer_of(const Importer& in) {
  std::string chain;
  if (const auto* list = in.find("optimizers.chain.transformations")) {
    chain = emit_yaml_flow(*list);
  }
  for (const std::string name : {"adamw", "sgd", "adafactor", "lamb"}) {
    if (chain.find("optax." + name) != std::string::npos) return name;
  }
  return "adamw";
}

// Upstream's one transform leaves the weights alone.
bool restores_weights_alone(const Importer& in) {
  const auto* list = in.find(kTransforms);
  return list != nullptr &&
         emit_yaml_flow(*list).find("just_states_transform") != std::string::npos;
}

// A checkpoint that is gone on from: its weights, moments and count of steps.
ImportRule restore_rule() {
  return {"", "", [](Importer& in, const std::string& key, const ConfigNode& value) {
            const bool is_list = value.kind == ConfigNode::Kind::kList;
            if (is_list && value.children.size() > 1)
              return in.refused("several checkpoints; expected one");
            const auto path = is_list ? value.children.empty() ? "" : value.children.front().scalar
                                      : in.text(key);
            if (path.empty() || path.starts_with("%"))
              return in.mapped("", "from scratch, the default");
            in.set_text("init.weights", path);
            if (restores_weights_alone(in)) return in.mapped("init.weights");
            if (optimizer_of(in) != "adamw") {
              return in.changed("init.weights",
                                "the weights alone: of moments and steps, AdamW's are taken over");
            }
            in.set_text("init.optimizer", path);
            in.mapped("init.weights, init.optimizer", "with moments and count of steps");
          }};
}

ImportRule transforms_rule() {
  return {"", "", [](Importer& in, const std::string&, const ConfigNode& value) {
            if (restores_weights_alone(in))
              return in.mapped("", "the weights alone, so no init.optimizer");
            value.kind == ConfigNode::Kind::kNull || value.children.empty()
                ? in.mapped("", "the default")
                : in.refused("init.weights takes the weights as they are");
          }};
}

// Weights that are not there are never begun anew without a word.
ImportRule strict_rule(const std::string& there, const std::string& why) {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode&) {
            in.flag(key, there == "true") == (there == "true") ? in.mapped("", why)
                                                               : in.changed("", why);
          }};
}

// What the conversion makes of a pre-training: another size of images, another head.
ImportRule pretrained_rule() {
  return {"", "", [](Importer& in, const std::string& key, const ConfigNode&) {
            const auto path = in.text(key);
            if (path.empty() || path.starts_with("%")) return in.mapped("", "not said");
            in.set_text("init.weights", path);
            in.set("init.skip_head", "true");
            in.changed("init.weights, init.skip_head",
                       "positions are interpolated when they are loaded, the head begins anew");
          }};
}

ImportRules train_rules() {
  const std::string train = "train_script.train.";
  ImportRules rules = {
      {train + "model", program_rule()},
      {train + "model_dir", part_of("run.dir")},
      {train + "total_steps", to("trainer.max_steps")},
      {train + "eval_period", to("trainer.eval_every_steps")},
      {train + "stats_period", to("log.every_steps")},
      {train + "random_seed",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          in.set("run.seed", in.number(key, 42));
          in.changed("run.seed", "None, the time of day there, is 42");
        }}},
      {train + "use_hardware_rng", needless("random numbers are a function of seed and position")},
      {train + "run_eval_before_training",
       refuse_unless("false", "the first evaluation follows the first epoch")},
      {train + "run_dali_eval", needless("every evaluation is exact")},
      {train + "eval_steps", refuse_unless("null", "an evaluation takes the whole set")},
      {"partitioning.PjitPartitioner.num_partitions", partitions_rule()},
      {"partitioning.PjitPartitioner.model_parallel_submesh", partitions_rule()},
      {"partitioning.PjitPartitioner.logical_axis_rules", program_rule()},
      {"trainer.Trainer.num_microbatches",
       part_of("trainer.micro_batch_size",
               "the global batch over it; sums are divided by weights, "
               "so that it changes no result")},
      {"trainer.Trainer.learning_rate_fn", part_of("schedule.name")},
      {"utils.CheckpointConfig.restore", program_rule()},
      {"utils.CheckpointConfig.save", program_rule()},
      {"utils.RestoreCheckpointConfig.path", restore_rule()},
      {"utils.RestoreCheckpointConfig.mode",
       {"", "",
        [](Importer& in, const std::string& key, const ConfigNode&) {
          const auto mode = in.text(key, "latest");
          mode == "latest" || mode == "specific"
              ? in.mapped("", "of a run's folder the latest checkpoint")
              : in.refused("one checkpoint is read");
        }}},
      {"utils.RestoreCheckpointConfig.fallback_to_scratch",
       strict_rule("false", "weights that are asked for and are not there are an error")},
      {"utils.RestoreCheckpointConfig.strict",
       strict_rule("true", "weights are loaded strictly; init.skip_head leaves the head out")},
      {kTransforms, transforms_rule()},
      {"utils.SaveCheckpointConfig.period", to("checkpoint.every_steps")},
      {"utils.SaveCheckpointConfig.dtype", refuse_unless("float32", "master weights are float32")},
      {"utils.SaveCheckpointConfig.keep", to("checkpoint.keep")},
      {"utils.SaveCheckpointConfig.save_dataset",
       needless("the position in the data is always in the checkpoint")},
      {"ckpt_script.convert_t5x_finetune_to_pretrain.pretrain_ckpt_dir", pretrained_rule()},
      {"ckpt_script.convert_t5x_finetune_to_pretrain.finetune_ckpt_dir",
       needless("nothing is written: the recipe that fine-tunes takes init.weights")},
      {"ckpt_script.convert_t5x_finetune_to_pretrain.pretrained_model", program_rule()},
      {"ckpt_script.convert_t5x_finetune_to_pretrain.partitioner", program_rule()},
      {"ckpt_script.convert_t5x_finetune_to_pretrain.finetune_resolution",
       part_of("model.img_size")},
  };
  for (const auto* key :
       {"train_dataset_cfg", "train_eval_dataset_cfg", "infer_eval_dataset_cfg", "checkpoint_cfg",
        "partitioner", "trainer_cls", "summarize_config_fn", "get_dataset_fn",
        "train_eval_get_dataset_fn", "verify_matching_vocabs_fn", "prepare_train_iter_fn",
        "prepare_eval_iter_fn"}) {
    rules[train + key] = program_rule();
  }
  for (const auto* key : {"dali.get_dali_dataset.pipeline", "dali.get_dali_eval_dataset.pipeline",
                          "layers.FlaxGViTForImageClassificationModule.config",
                          "models.ViTModel.module", "models.ViTModel.optimizer_def"}) {
    rules[key] = program_rule();
  }
  for (const auto* flag :
       {"--multiprocess_gpu", "--coordinator_address", "--process_count", "--process_index"}) {
    rules[flag] = needless("who is which rank, launch.processes or Slurm says");
  }
  for (const auto* macro : {"MIXTURE_OR_TASK_NAME",
                            "EVAL_MIXTURE_OR_TASK_NAME",
                            "TRAIN_STEPS",
                            "MODEL_DIR",
                            "BATCH_SIZE",
                            "INFER_BS",
                            "HIDDEN_DROPOUT_PROB",
                            "LN_EPSILON",
                            "TRAIN_INDEX_DIR",
                            "EVAL_INDEX_DIR",
                            "USE_HARDWARE_RNG",
                            "RANDOM_SEED",
                            "SHUFFLE_TRAIN_EXAMPLES",
                            "NUM_CLASSES",
                            "REP_SIZE",
                            "OPTIMIZER",
                            "MODEL",
                            "MODULE",
                            "CONFIG",
                            "PT_CKPT_DIR",
                            "FT_CKPT_DIR"}) {
    rules[macro] = needless(kMacro);
  }
  return rules;
}

ImportRules wds_rules() {
  ImportRules rules;
  for (const std::string scope : {"train", "train_eval"}) {
    const bool is_train = scope == "train";
    const auto target = is_train ? std::string("data.train") : std::string("data.val");
    const auto source = scope + "/wds_utils.WebDatasetConfig.";
    rules[source + "urls"] = part_of(target + ".path");
    rules[source + "index_dir"] = index_rule(target + ".index");
    rules[source + "batch_size"] = is_train ? to("data.global_batch_size") : needless(kEvalBatch);
    rules[source + "shuffle"] =
        refuse_unless(is_train ? "true" : "false", "training data is always permuted");
    rules[source + "seed"] = refuse_unless("null", "run.seed is the one seed");
    rules[source + "prefetch"] = to("data.prefetch");
    rules[source + "num_parallel_processes"] = to("data.threads");
    const auto pipeline = scope + "/dali_utils.ViTPipeline.";
    rules[pipeline + "num_classes"] = part_of("model.num_classes");
    rules[pipeline + "image_shape"] = part_of("model.img_size, " + target + ".transforms");
    rules[pipeline + "training"] = refuse_unless(is_train ? "true" : "false", kProgram);
  }
  return rules;
}

// [height, width] of the images.
std::string image_sides(const Importer& in) {
  const auto shape = in.numbers("train/dali_utils.ViTPipeline.image_shape", {224, 224, 3});
  const auto side =
      in.number("ckpt_script.convert_t5x_finetune_to_pretrain.finetune_resolution", shape.front());
  return fmt::format("[{}, {}]", side, side == shape[0] && shape.size() > 1 ? shape[1] : side);
}

void finish_schedule(Importer& in) {
  const std::string warm = "optax.warmup_cosine_decay_schedule.";
  const std::string cosine = "optax.cosine_decay_schedule.";
  in.set("schedule.name", "cosine");
  if (in.has(warm + "peak_value")) {
    in.set("optim.lr", in.number(warm + "peak_value", 3e-3));
    in.set("schedule.warmup_steps", in.number(warm + "warmup_steps", 0));
    in.set("schedule.warmup_lr", in.number(warm + "init_value", 0));
    in.set("schedule.min_lr", in.number(warm + "end_value", 0));
    // optax counts the warm-up within decay_steps and starts the cosine behind it.
    in.set("schedule.warmup_prefix", "true");
    in.set("schedule.total_steps",
           in.number(warm + "decay_steps", 1) - in.number(warm + "warmup_steps", 0));
  } else if (in.has(cosine + "init_value")) {
    const auto lr = in.number(cosine + "init_value", 3e-3);
    in.set("optim.lr", lr);
    in.set("schedule.min_lr", lr * in.number(cosine + "alpha", 0));
    in.set("schedule.total_steps", in.number(cosine + "decay_steps", 1));
  }
}

}  // namespace

void import_rosetta(Importer& in) {
  auto rules = config_rules();
  rules.merge(schedule_rules());
  rules.merge(train_rules());
  rules.merge(wds_rules());
  const auto dir = in.text("train_script.train.model_dir");
  if (dir.empty() || dir.starts_with("%")) {
    in.set("run.dir", "runs/rosetta_vit");
  } else {
    in.set_text("run.dir", dir);
  }
  in.set("model.name", "vit");
  in.set("model.img_size", image_sides(in));
  in.set("model.act_layer", "gelu_tanh");
  in.set("model.weight_init", "jax");
  in.set("model.pos_embed_interp", "zoom");  // what its conversion to another size does
  const auto optimizer = optimizer_of(in);
  in.set("optim.name", optimizer);
  in.set("task.name", "classification");
  for (const std::string part : {"train", "val"}) {
    const auto scope = part == "train" ? "train" : "train_eval";
    in.set("data." + part + ".format", "wds");
    in.set_text("data." + part + ".path",
                in.text(std::string(scope) + "/wds_utils.WebDatasetConfig.urls", "shards"));
  }
  in.apply(rules);
  const std::string config = "config.GoogleViTConfig.";
  in.set("model.mlp_ratio",
         in.number(config + "intermediate_size", 3072) / in.number(config + "hidden_size", 768));
  finish_schedule(in);
  if (optimizer == "adamw") {
    in.set("optim.decay_all", "true");
    in.set("optim.betas", fmt::format("[{}, {}]", in.number("optax.adamw.b1", 0.9),
                                      in.number("optax.adamw.b2", 0.999)));
  }
  if (in.has("trainer.Trainer.num_microbatches")) {
    const auto batch = in.number("train/wds_utils.WebDatasetConfig.batch_size", 128);
    const auto passes = in.number("trainer.Trainer.num_microbatches", 1);
    in.set("trainer.micro_batch_size", std::ceil(batch / std::max(passes, 1.0)));
  }
  in.set("data.train.transforms",
         fmt::format("[{{name: random_resized_crop, size: {}, interpolation: bilinear}}, "
                     "horizontal_flip, {{name: color_jitter, brightness: 0.4, contrast: 0.4, "
                     "saturation: 0.4}}, {{name: auto_augment, policy: original}}, "
                     "{{name: normalize, preset: imagenet}}]",
                     image_sides(in)));
  in.set("data.val.transforms", fmt::format("[{{name: resize, size: {}, interpolation: bilinear}}, "
                                            "{{name: normalize, preset: imagenet}}]",
                                            image_sides(in)));
}

}  // namespace fovea::recipe_import
