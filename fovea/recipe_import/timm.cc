// timm's train.py: args.yaml or a command line.
#include "fovea/recipe_import/timm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "fovea/core/error.h"

namespace fovea::recipe_import {
namespace {

const TimmDefaults kTimm = {"resnet50", "sgd", 2e-5, 1e-5, 0,      5,  0,    128,
                            0,          0,     0,    0,    0.9998, "", false};

// How many of them the launcher starts: --gpus, torchrun's (distributed_train.sh has its first
// argument so), or srun's and mpirun's.
double processes_of(const Importer& in) {
  if (in.options().num_gpus > 0) return static_cast<double>(in.options().num_gpus);
  const auto count = [&](const char* key, double otherwise) {
    const auto* node = in.find(std::string("launch.") + key);
    return node != nullptr && is_count(*node) ? as_number(key, *node) : otherwise;
  };
  const auto nodes = count("nodes", count("N", 1));
  const auto tasks = count("ntasks", count("n", count("np", nodes * count("ntasks_per_node", 1))));
  if (in.has("launch.nproc_per_node")) {
    return count("nproc_per_node", 1) * count("nnodes", 1);
  }
  return tasks;
}

// Its program counts otherwise than T2T-ViT's, from which it comes.
bool is_of_jabas(const Importer& in) {
  const char* const kKeys[] = {"local_batch_size",   "lbs",
                               "num_models",         "accum_step",
                               "weight_sync_method", "jabas_config_file",
                               "is_elastic_training"};
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const char* key) { return in.has(key); });
}

TimmRun run_of(const Importer& in, const TimmDefaults& defaults) {
  TimmRun run{};
  run.processes = processes_of(in);
  run.passes = std::max(1.0, in.number("grad_accum_steps", 1));
  double batch = in.number("batch_size", in.number("b", defaults.batch_size)) * run.passes;
  if (is_of_jabas(in)) {
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

void check_training(const Importer& in) {
  if (in.text("eval_checkpoint").empty()) return;
  fail<ConfigError>(
      "eval_checkpoint: it evaluates {}, and a recipe trains; no recipe was written. Import "
      "the line without that, then `fovea eval recipe.yaml init.weights=FILE` evaluates the file",
      in.text("eval_checkpoint"));
}

void set_model_of_timm(Importer& in, const TimmDefaults& defaults) {
  if (const auto variable = in.unknown("model"); !variable.empty()) {
    fail<ConfigError>("--model is {}, which has no value in the file; put the model's name there",
                      variable);
  }
  auto name = in_lower_case(in.text("model", defaults.model));
  const bool is_t2t = name.starts_with("t2t_vit");
  const auto tagged = model_input_of(in, defaults);
  name = name.substr(0, name.find('.'));  // timm's tag of the weights
  in.set("model.name", is_t2t ? "t2t_vit" : "vit");
  in.set("model.preset", name);
  const auto plain = in.options().model_input ? in.options().model_input(name) : std::nullopt;
  if (!in.has("num_classes") && plain && tagged.num_classes != plain->num_classes) {
    in.set("model.num_classes", static_cast<double>(tagged.num_classes));
  }
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
  const auto opt = in_lower_case(in.text("opt", defaults.optimizer));
  if (!in.text("resume").empty() && !in.flag("no_resume_opt", false) &&
      optimizer_of_timm(opt) == "adamw")
    in.set_text("init.optimizer", in.text("resume"));
  const bool has_amp =
      in.flag("amp", false) || in.flag("native_amp", false) || in.flag("apex_amp", false);
  // timm's scaler is torch's with its defaults, which are those of trainer.grad_scaler.
  const bool has_bfloat16 = in.text("amp_dtype", "float16") == "bfloat16";
  in.set("device.dtype", !has_amp ? "float32" : has_bfloat16 ? "bfloat16" : "float16");
  const auto device = in.text("device");
  in.set("device.type", device.starts_with("cuda") ? "cuda" : device == "cpu" ? "cpu" : "auto");
}

void set_optimizer_of_timm(Importer& in, const TimmDefaults& defaults, const TimmRun& run) {
  const auto opt = in_lower_case(in.text("opt", defaults.optimizer));
  const auto name = optimizer_of_timm(opt);
  in.set("optim.name", name.empty() ? "adamw" : name);
  if (name == "sgd") {
    in.set("optim.nesterov", opt == "momentum" ? "false" : "true");
    in.set("optim.momentum", in.number("momentum", 0.9));
  }
  if (opt == "lambc") in.set("optim.trust_clip", "true");
  in.set("optim.weight_decay", in.number("weight_decay", defaults.weight_decay));
  const bool by_root =
      opt.find("ada") != std::string::npos || opt.find("lamb") != std::string::npos;
  const auto scale = in.text("lr_base_scale", by_root ? "sqrt" : "linear");
  const double ratio = run.batch / in.number("lr_base_size", 256);
  const double scaled = in.number("lr_base", 0.1) * (scale == "sqrt" ? std::sqrt(ratio) : ratio);
  in.set("optim.lr", in.number("lr", defaults.optimizer == "adamw" ? 5e-4 : scaled));
}

void set_schedule_of_timm(Importer& in, const TimmDefaults& defaults, const TimmRun& run) {
  auto name = schedule_of_timm(in_lower_case(in.text("sched", "cosine")));
  if (name.empty()) name = "constant";
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
  if (name == "polynomial") {
    in.set("schedule.power", in.number("decay_rate", in.number("dr", 0.1)));
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

}  // namespace

std::string optimizer_of_timm(const std::string& opt) {
  const std::map<std::string, std::string> names = {
      {"sgd", "sgd"},     {"nesterov", "sgd"},      {"momentum", "sgd"},        {"adam", "adamw"},
      {"adamw", "adamw"}, {"adamwlegacy", "adamw"}, {"fusedadamw", "adamw"},    {"lamb", "lamb"},
      {"lambc", "lamb"},  {"fusedlamb", "lamb"},    {"adafactor", "adafactor"}, {"muon", "muon"}};
  const auto found = names.find(opt);
  return found == names.end() ? "" : found->second;
}

std::string schedule_of_timm(const std::string& sched) {
  const std::map<std::string, std::string> names = {
      {"cosine", "cosine"},       {"poly", "polynomial"}, {"step", "step"},
      {"multistep", "multistep"}, {"none", "constant"},   {"constant", "constant"}};
  const auto found = names.find(sched);
  return found == names.end() ? "" : found->second;
}

bool is_count(const ConfigNode& value) {
  return value.kind == ConfigNode::Kind::kScalar && !value.scalar.empty() &&
         value.scalar.find_first_not_of("0123456789") == std::string::npos;
}

ModelInput model_input_of(const Importer& in, const TimmDefaults& defaults) {
  const auto name = in_lower_case(in.text("model", defaults.model));
  const auto& known = in.options().model_input;
  const auto plain = known ? known(name.substr(0, name.find('.'))) : std::nullopt;
  return input_of_tag(name, plain.value_or(ModelInput()));
}

std::string in_lower_case(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

void finish_timm(Importer& in, const TimmDefaults& defaults) {
  check_training(in);
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
  if (in.flag("grad_checkpointing", false)) in.set("parallel.recompute", "block");
  if (const auto steps = in.number("recovery_interval", 0); steps > 0) {
    in.set("checkpoint.every_steps", steps);
  }
  const auto output = in.text("output", in.text("checkpoint_path", "runs"));
  in.set_text("run.dir",
              (output.empty() ? "runs" : output) + "/" +
                  in.text("experiment", in_lower_case(in.text("model", defaults.model))));
  if (in.flag("log_wandb", false)) {
    in.set_text("log.wandb.project", in.text("wandb_project", "fovea"));
  }
}

void import_timm(Importer& in) {
  if (in.has("script")) return import_transfer(in);
  in.set("run.dir", "runs/timm");
  in.apply(timm_rules(kTimm));
  finish_timm(in, kTimm);
}

}  // namespace fovea::recipe_import
