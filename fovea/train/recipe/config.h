// The whole of a recipe: the sum of the configs that stand beside the things they configure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/data/config.h"
#include "fovea/models/model_config.h"
#include "fovea/optim/config.h"
#include "fovea/optim/grad_scaler.h"
#include "fovea/parallel/config.h"
#include "fovea/track/mlflow_config.h"
#include "fovea/train/recipe/elastic_config.h"
#include "fovea/train/tasks/task_config.h"

namespace fovea::train {

struct RunConfig {
  std::string dir;
  int64_t seed = 42;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("dir", self.dir,
            "run folder: checkpoints, metrics, report; the same command goes on with it",
            {.required = true});
    v.field("seed", self.seed,
            "what weights, sample order, augmentation and dropout are drawn from",
            {.min = 0, .max = 9007199254740992.0});
  }
};

struct DeviceConfig {
  std::string type = "auto";
  std::string dtype = "float32";
  std::string attention = "auto";
  std::string fp8 = "off";
  std::string cuda_graph = "off";
  std::string recompute_cheap = "auto";
  std::string saved_activations = "full";
  std::string float32_products = "float32";
  int64_t threads = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("type", self.type, "where the model runs; auto: a GPU where one is, else the CPU",
            {.choices = {"auto", "cpu", "cuda"}});
    v.field(
        "dtype", self.dtype,
        "dtype of activations and products; master weights and sums are float32; auto: bfloat16 "
        "where the device multiplies it in hardware, else float32; float16 comes with a scale of "
        "the loss, see trainer.grad_scaler; int8: products of 8-bit integers in the linear layers "
        "of "
        "blocks, not for training: see int8",
        {.choices = {"float32", "bfloat16", "float16", "auto", "int8"}});
    v.field("attention", self.attention,
            "kernel of attention; auto: the fastest known for the device and the number of tokens, "
            "on a GPU measured for each shape and kept in attention.json of the run folder; "
            "own: Fovea's, of self-attention on the CPU; flash: FlashAttention, on the CPU "
            "libtorch's blocked kernel; cudnn, efficient: on a GPU; math: plain products. What it "
            "cannot take runs as with auto",
            {.choices = {"auto", "own", "flash", "cudnn", "efficient", "math"}});
    v.field("fp8", self.fp8,
            "8-bit floats in the linear layers of blocks while training, with dtype bfloat16; off; "
            "current: each tensor is scaled for its own largest value; delayed: for that of the "
            "steps before; auto: as current, for layers that a measurement at the start finds "
            "faster so",
            {.choices = {"off", "current", "delayed", "auto"}});
    v.field("cuda_graph", self.cuda_graph,
            "on a GPU, record a whole training step as a CUDA graph and replay it: the same "
            "results, with less work of the host for each step; on: say as a warning where that "
            "cannot be; auto: where it can be",
            {.choices = {"off", "on", "auto"}});
    v.field("recompute_cheap", self.recompute_cheap,
            "make the outputs of norms and activations again in backward instead of keeping them, "
            "a third of what a block keeps; the same bits; auto: on the CPU, and on a GPU from "
            "half of its memory on",
            {.choices = {"auto", "on", "off"}});
    v.field("saved_activations", self.saved_activations,
            "what backward finds of the activations of float32 on a CPU; full: as they were "
            "computed; bfloat16: rounded, in half the memory; the forward pass is the same to the "
            "bit",
            {.choices = {"full", "bfloat16"}});
    v.field("float32_products", self.float32_products,
            "how linear layers of float32 multiply on a CPU while training; bfloat16x6: as six "
            "products of bfloat16, with float32's errors; bfloat16x3: as three, with errors of "
            "2^-16; both for processors that multiply bfloat16 many times as fast (AMX)",
            {.choices = {"float32", "bfloat16x6", "bfloat16x3"}});
    v.field("threads", self.threads,
            "threads of the CPU kernels; 0: one for each core of this process",
            {.min = 0, .max = 1024});
  }
  void validate(ConfigIssues& issues) const;
};

struct Int8Config {
  std::string activations = "dynamic";
  std::string ranges;
  std::vector<std::string> skip;
  std::string rest = "auto";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("skip", self.skip,
            "linear layers that stay as the rest, by name or pattern (`blocks.*.mlp.fc2`); `fovea "
            "eval --int8-errors` ranks them");
    v.field("rest", self.rest,
            "dtype of everything else, such as attention: auto: bfloat16 where the processor "
            "multiplies it, elsewhere float32",
            {.choices = {"auto", "bfloat16", "float32"}});
    v.field("activations", self.activations,
            "where codes of activations come from: dynamic: each token's own range; calibrated: "
            "one range for each layer, which `fovea calibrate` has measured",
            {.choices = {"dynamic", "calibrated"}});
    v.field("ranges", self.ranges,
            "with int8.activations calibrated: the file of ranges; empty: STEM.int8_ranges.json "
            "beside the weights");
  }
  void validate(ConfigIssues& issues) const;
};

// Where weights come from before step 0.
struct InitConfig {
  std::string weights;
  std::string optimizer;
  std::optional<int64_t> step;
  std::string part = "all";
  bool resize_pos_embed = true;
  bool skip_head = false;
  bool adapt_in_chans = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("weights", self.weights,
            "weights file of Fovea, timm, Hugging Face, DINOv2, MAE or Google (safetensors, .pt, "
            ".npz), a DCP folder, a checkpoint of t5x, a run folder, or hf-hub:ORG/NAME[@REVISION] "
            "on the Hugging Face hub, which is fetched once; empty: initialise from run.seed");
    v.field(
        "optimizer", self.optimizer,
        "checkpoint of a torch run (a file, or a DCP folder; as a rule that of `weights`) whose "
        "moments and number of steps are taken over, strictly, of the optimizer that `optim` "
        "names; "
        "or a run folder or checkpoint of Fovea's, for all of its state; empty: moments start at "
        "zero");
    v.field("step", self.step,
            "optimizer steps that were done before: the schedule, the length of the run and the "
            "order of the samples go on behind them; auto: those of `optimizer`, without it 0",
            {.min = 0, .unit = "steps", .null_word = "auto"});
    v.field("part", self.part,
            "all: every parameter, from a file of the same model; encoder: the encoder alone, such "
            "as a MAE's for a classifier, and what stands behind it stays as initialised",
            {.choices = {"all", "encoder"}});
    v.field("resize_pos_embed", self.resize_pos_embed,
            "interpolate a position embedding of another grid; false: an error");
    v.field("skip_head", self.skip_head,
            "leave the classifier as initialised, for another set of classes");
    v.field("adapt_in_chans", self.adapt_in_chans,
            "fold the patch filters of another number of channels to this one, as timm does; "
            "false: an error");
  }
  void validate(ConfigIssues& issues) const;
};

struct EmaConfig {
  bool enabled = false;
  double decay = 0.9998;
  bool warmup = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("enabled", self.enabled,
            "keep an exponential moving average of the weights; evaluate and export it");
    v.field("decay", self.decay, "share of the old average kept at each step",
            {.min = 0, .max = 1});
    v.field("warmup", self.warmup, "let the decay grow as 1 - (1 + step)^(-2/3), up to `decay`");
  }
};

struct TrainerConfig {
  std::optional<double> max_epochs;
  std::optional<int64_t> max_steps;
  std::optional<int64_t> micro_batch_size;
  std::optional<int64_t> concurrent_passes = 1;
  double max_grad_norm = 0;
  double max_grad_value = 0;
  double max_grad_ratio = 0;
  double eval_every_epochs = 1;
  std::optional<int64_t> eval_every_steps;
  std::vector<std::string> freeze;
  std::string cache_features = "none";
  EmaConfig ema;
  optim::GradScalerConfig grad_scaler;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("max_epochs", self.max_epochs,
            "passes over the training set (or give max_steps); with both, whichever ends first",
            {.min = 0, .exclusive_min = true, .unit = "epochs", .instead_of = {"max_steps"}});
    v.field("max_steps", self.max_steps, "optimizer steps (or give max_epochs)",
            {.min = 1, .unit = "steps", .instead_of = {"max_epochs"}});
    v.field("micro_batch_size", self.micro_batch_size,
            "samples in one forward pass; the gradients of a batch are summed over its passes and "
            "equal those of the whole batch; auto: the whole batch, halved where memory runs out",
            {.min = 1, .unit = "samples", .null_word = "auto"});
    v.field("concurrent_passes", self.concurrent_passes,
            "micro-batches that one process computes at the same time, each in a share of its "
            "threads, on a GPU in a stream; the sums are those of one after another, to the bit, "
            "and memory holds the activations of so many; auto: what a profile in "
            "elastic.profile_dir, or else the first steps, show to be fastest, where it gains "
            "anything",
            {.min = 1, .max = 64, .unit = "passes", .null_word = "auto"});
    v.field("max_grad_norm", self.max_grad_norm, "clip the gradient to this global norm; 0: off",
            {.min = 0});
    v.field("max_grad_value", self.max_grad_value, "clip each element of the gradient; 0: off",
            {.min = 0});
    v.field("max_grad_ratio", self.max_grad_ratio,
            "adaptive gradient clipping: keep the gradient of each output unit within this share "
            "of its weights' norm, 0.01 as a rule, but for the classifier (timm's clip_mode agc); "
            "0: off",
            {.min = 0});
    v.field("eval_every_epochs", self.eval_every_epochs,
            "evaluate this often, and at the end; 0: only at the end",
            {.min = 0, .unit = "epochs", .instead_of = {"eval_every_steps"}});
    v.field("eval_every_steps", self.eval_every_steps,
            "the same in steps, instead of eval_every_epochs",
            {.min = 1, .unit = "steps", .instead_of = {"eval_every_epochs"}});
    v.field("freeze", self.freeze,
            "parameters that stay as they are, by name or pattern (`blocks.*`); `backbone`: all "
            "but the head, and a classifier's backbone then runs without dropout and autograd");
    v.field("cache_features", self.cache_features,
            "with a frozen backbone, run it once for each sample and train the head on what it "
            "gave: exact, where the transforms of data.train draw nothing; first_epoch, with what "
            "they draw for the first epoch kept for all; none: run it for each batch",
            {.choices = {"none", "exact", "first_epoch"}});
    v.field("ema", self.ema, "moving average of the weights");
    v.field("grad_scaler", self.grad_scaler, "dynamic scale of the loss");
  }
  void validate(ConfigIssues& issues) const;
};

struct CheckpointConfig {
  int64_t every_steps = 500;
  int64_t keep = 3;
  std::optional<std::string> best_metric;
  std::string label_metric;
  bool async = true;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("every_steps", self.every_steps,
            "save this often, and at the end and when told to stop", {.min = 1, .unit = "steps"});
    v.field("keep", self.keep, "checkpoints kept, besides the best", {.min = 1});
    v.field("best_metric", self.best_metric,
            "metric of the evaluation that names the best checkpoint; auto: the task's first one",
            {.null_word = "auto"});
    v.field("label_metric", self.label_metric,
            "metric that ends the folder's name of a checkpoint saved at an evaluation, as in "
            "step_00000500_loss_0.251; empty: none");
    v.field("async", self.async, "write while training goes on");
  }
};

struct WandbConfig {
  std::string project;
  std::string entity;
  std::string name;
  std::string mode = "auto";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("project", self.project, "Weights & Biases project");
    v.field("entity", self.entity, "user or team; empty: the default one");
    v.field("name", self.name, "name of the run there; empty: the run folder's");
    v.field("mode", self.mode,
            "how the client runs; auto: online where it has a key (WANDB_API_KEY or ~/.netrc), "
            "else offline",
            {.choices = {"auto", "online", "offline", "disabled"}});
  }
};

struct LogConfig {
  std::optional<int64_t> every_steps = {};
  std::optional<double> peak_tflops;
  bool tensorboard = true;
  int64_t trace_steps = 0;
  std::optional<WandbConfig> wandb;
  std::optional<track::MlflowConfig> mlflow;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("every_steps", self.every_steps,
            "steps averaged in one line of metrics.jsonl; auto: the most of 1, 2, 5, 10, 20 and 50 "
            "with which the run has 100 lines, so that short runs have a curve, too",
            {.min = 1, .unit = "steps", .null_word = "auto"});
    v.field(
        "peak_tflops", self.peak_tflops,
        "what the device of one process does at best, in the dtype of device.dtype, as its maker "
        "says; with it lines of metrics.jsonl have mfu",
        {.min = 0, .exclusive_min = true, .unit = "TFLOP/s"});
    v.field("tensorboard", self.tensorboard, "write an event file for TensorBoard");
    v.field("trace_steps", self.trace_steps,
            "steps to draw as a timeline, from the second one of a start on, in trace.json of the "
            "run folder (chrome://tracing, Perfetto); 0: none",
            {.min = 0, .max = 1000, .unit = "steps"});
    v.field("wandb", self.wandb,
            "send metrics to Weights & Biases through a helper that follows metrics.jsonl");
    v.field("mlflow", self.mlflow,
            "send metrics to an MLflow server while training goes on; what could not be sent, "
            "`fovea track` sends");
  }
};

// log.every_steps of a run of so many steps.
int64_t steps_of_a_line(const LogConfig& config, int64_t num_steps);

// One of several runs that follow each other.
struct PhaseConfig {
  std::string name;
  std::string start_from = "latest";
  ConfigTree set;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("name", self.name,
            "names the phase and, behind its number, its folder: letters, digits, _ and -",
            {.required = true});
    v.field("start_from", self.start_from,
            "weights it starts from: latest, those the phase before it ended with; best, those of "
            "its best evaluation; none, the file that init.weights names. The first phase starts "
            "as init says",
            {.choices = {"latest", "best", "none"}});
    v.field("set", self.set,
            "keys of the recipe that are other in this phase, in sections as in the recipe "
            "(`{optim: {lr: 1e-4}}`)");
  }
};

struct TrainConfig {
  RunConfig run;
  DeviceConfig device;
  Int8Config int8;
  models::ModelConfig model;
  InitConfig init;
  TaskConfig task;
  data::DataConfig data;
  optim::OptimConfig optim;
  optim::ScheduleConfig schedule;
  TrainerConfig trainer;
  parallel::ParallelConfig parallel;
  parallel::LaunchConfig launch;
  ElasticConfig elastic;
  CheckpointConfig checkpoint;
  LogConfig log;
  std::vector<PhaseConfig> phases;  // see phase_configs.h

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("run", self.run, "the run");
    v.field("device", self.device, "where and in what precision it runs");
    v.field("int8", self.int8,
            "with device.dtype int8: what predict, eval and serve multiply as 8-bit integers");
    v.field("model", self.model, "the model");
    v.field("init", self.init, "the weights it starts from");
    v.field("task", self.task, "the objective and its metrics");
    v.field("data", self.data, "training and validation data");
    v.field("optim", self.optim, "the optimizer");
    v.field("schedule", self.schedule, "the learning rate over the run");
    v.field("trainer", self.trainer, "the loop");
    v.field("parallel", self.parallel, "how the work is spread over processes");
    v.field("launch", self.launch, "the processes themselves");
    v.field("elastic", self.elastic,
            "workers that come and go while the run goes on: `fovea elastic`, launch.elastic; a "
            "batch that follows the gradients, in any run; what `fovea elastic solve` goes by");
    v.field("checkpoint", self.checkpoint, "when the state is saved, and what is kept");
    v.field("log", self.log, "what is written down");
    v.field("phases", self.phases,
            "several trainings one after the other, each with the recipe's keys but those that it "
            "sets; empty: one");
  }
  void validate(ConfigIssues& issues) const;
  // Throws ConfigError where a phase cannot be made of the recipe.
  void check() const;
};

}  // namespace fovea::train

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::BoundSection<train::TrainConfig>;

}  // namespace fovea
