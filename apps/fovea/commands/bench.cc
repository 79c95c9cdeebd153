// fovea bench model|data ...
#include "apps/fovea/commands/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/trace.h"
#include "fovea/files/atomic_file.h"
#include "fovea/models/registry.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/train/bench/bench.h"
#include "fovea/train/bench/bench_profile.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/recipe/int8_layers.h"
#include "fovea/train/session.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::app {
namespace {

struct BenchArguments {
  std::string model;
  std::vector<std::string> overrides;
  std::string mode = "both";
  std::string device = "auto";
  std::string dtype = "float32";
  std::string int8_activations;
  std::string int8_rest;
  int64_t threads = 0;
  int64_t batch_size = 32;
  int64_t steps = 10;
  int64_t warmup = 3;
  bool json = false;
  bool profile = false;
  std::string trace = "bench_trace.json";
  std::string compare;
  std::string gradients;
};

bool is_recipe(const std::string& text) {
  const auto extension = std::filesystem::path(text).extension();
  return extension == ".yaml" || extension == ".yml";
}

train::BenchOptions bench_options(const BenchArguments& arguments) {
  train::BenchOptions options;
  options.name = arguments.model;
  if (is_recipe(arguments.model)) {
    options.config = load_config<train::TrainConfig>(arguments.model, arguments.overrides);
    options.is_recipe = true;
    options.name = std::filesystem::path(arguments.model).stem().string();
  } else if (!arguments.overrides.empty()) {
    fail<ConfigError>("'{}' changes a recipe, but {} is the name of a model; give a recipe (.yaml)",
                      arguments.overrides.front(), arguments.model);
  } else {
    options.config.model = models::named_config(arguments.model);
  }
  options.batch_size = arguments.batch_size;
  options.steps = arguments.steps;
  options.peak.repeats = std::min(options.peak.repeats, options.steps);  // one step: a quick look
  options.warmup_steps = arguments.warmup;
  auto& device = options.config.device;  // a recipe's device.attention and fp8 stay
  device.type = arguments.device;
  options.is_int8 = arguments.dtype == "int8";
  if (options.is_int8 && arguments.mode != "infer") {
    fail<ConfigError>("--dtype int8 is of inference; expected --mode infer, found --mode {}",
                      arguments.mode);
  }
  if (!arguments.int8_activations.empty()) {
    options.config.int8.activations = arguments.int8_activations;
  }
  if (!arguments.int8_rest.empty()) options.config.int8.rest = arguments.int8_rest;
  device.dtype = options.is_int8 ? train::dtype_name(train::dtype_beside_int8(options.config.int8))
                                 : arguments.dtype;
  device.threads = arguments.threads;
  ConfigIssues issues;  // of --dtype, which the recipe does not know
  device.validate(issues);
  for (const auto& issue : issues.all()) {
    fail<ConfigError>("device.{}: {} (bench takes --dtype)", issue.key, issue.message);
  }
  return options;
}

void print(const train::BenchResult& result, bool as_json) {
  if (as_json) {
    say_as_is("{}\n", result.to_json());
    return;
  }
  say("{}, {}: {} on {}, batch {}, {} threads\n", result.name, result.mode, result.dtype,
      result.device, result.batch_size, result.threads);
  say("  {:.1f} img/s   step {:.1f} ms (median of {}; {:.1f} to {:.1f})\n",
      result.images_per_second, result.step_ms, result.steps, result.step_ms_min,
      result.step_ms_max);
  say("  {:.0f} GFLOP/s, {:.0f} % of the {:.0f} that matrix products reach here   peak memory "
      "{:.0f} MiB\n",
      result.gflops_per_second, 100 * result.gemm_share, result.gemm_gflops_per_second,
      static_cast<double>(result.peak_memory_bytes) / (1 << 20));
  if (result.device == "cpu") return;
  std::string operators;
  for (const auto& [name, count] : result.host_waits_by_operator) {
    operators += fmt::format("{}{} {}", operators.empty() ? ": " : ", ", name, count);
  }
  say("  {} waits of the host for the device in a step{}\n", result.host_waits, operators);
}

std::vector<bool> modes_of(const BenchArguments& arguments) {  // training?
  if (arguments.mode == "both") return {true, false};
  return {arguments.mode == "train"};
}

void profile(const BenchArguments& arguments, train::BenchOptions options) {
  trace::start();
  for (const bool is_training : modes_of(arguments)) {
    options.is_training = is_training;
    const auto result = train::profile_model(options);
    if (arguments.json) {
      say_as_is("{}\n", result.to_json());
    } else {
      say("{}\n", result.to_text());
    }
  }
  write_file_atomic(arguments.trace, trace::to_chrome(trace::stop(), /*rank=*/0));
  log_info(
      fmt::format("{}: the timeline of the steps; open it in chrome://tracing or "
                  "https://ui.perfetto.dev",
                  arguments.trace));
}

// What the other side can do too: a model by name, on the CPU.
void compare(const BenchArguments& arguments) {
  if (is_recipe(arguments.model) || arguments.json || arguments.profile ||
      arguments.device.starts_with("cuda") || arguments.dtype == "auto" ||
      arguments.dtype == "int8") {
    fail<ConfigError>(
        "--compare timm: expected the name of a model, --device cpu, --dtype float32 or bfloat16, "
        "and neither --json nor --profile; found {}, --device {}, --dtype {}",
        arguments.model, arguments.device, arguments.dtype);
  }
  models::named_config(arguments.model);  // an unknown name ends here
  std::vector<std::string> options = {"--model",      arguments.model,
                                      "--batch-size", std::to_string(arguments.batch_size),
                                      "--steps",      std::to_string(arguments.steps),
                                      "--warmup",     std::to_string(arguments.warmup)};
  if (arguments.threads > 0) {
    options.insert(options.end(), {"--threads", std::to_string(arguments.threads)});
  }
  options.emplace_back("--cases");
  for (const bool is_training : modes_of(arguments)) {
    options.push_back(arguments.dtype + (is_training ? "/train" : "/infer"));
  }
  compare_with_timm(options);
}

void write_gradients(const BenchArguments& arguments, const train::BenchOptions& options) {
  if (arguments.mode != "train") {
    fail<ConfigError>("--gradients: expected --mode train; found --mode {}", arguments.mode);
  }
  const auto tensors = train::bench_gradients(options);
  nn::write_tensor_file(arguments.gradients, tensors);
  say("{}: {} tensors\n", arguments.gradients, tensors.size());
}

void run(const BenchArguments& arguments) {
  if (!arguments.compare.empty()) return compare(arguments);
  auto options = bench_options(arguments);
  if (!arguments.gradients.empty()) return write_gradients(arguments, options);
  if (arguments.profile) return profile(arguments, options);
  for (const bool is_training : modes_of(arguments)) {
    options.is_training = is_training;
    print(train::bench_model(options), arguments.json);
  }
}

}  // namespace

void add_bench(Command app) {
  auto bench = app.add_command("bench", "Measure the speed of a model or of its data");
  bench.require_command();
  bench.examples({"fovea bench model vit_tiny_patch16_224",
                  "fovea bench data recipes/fashion_mnist/vit.yaml"});
  add_bench_data(bench);
  auto command = bench.add_command(
      "model",
      "Images a second, step time, share of the machine's matrix-product peak, peak memory");
  auto arguments = std::make_shared<BenchArguments>();
  command
      .add_option("model", arguments->model,
                  "name of a model (see: fovea list models), or a recipe")
      .required()
      .type_name("NAME|RECIPE");
  add_overrides(command, arguments->overrides, "model.depth=6");
  command.add_option("--mode", arguments->mode, "train, infer or both")
      .one_of({"train", "infer", "both"})
      .show_default();
  command.add_option("--device", arguments->device, "auto, cpu, cuda or cuda:N").show_default();
  command.add_option("--dtype", arguments->dtype, "dtype of activations and products")
      .one_of({"float32", "bfloat16", "float16", "int8", "auto"})
      .show_default();
  command
      .add_option("--int8-activations", arguments->int8_activations,
                  "with --dtype int8: dynamic, or calibrated on the noise that is measured with; "
                  "default: int8.activations of the recipe")
      .one_of({"dynamic", "calibrated"});
  command
      .add_option("--int8-rest", arguments->int8_rest,
                  "with --dtype int8: dtype of everything else; default: int8.rest of the recipe")
      .one_of({"auto", "bfloat16", "float32"});
  command
      .add_option("--threads", arguments->threads,
                  "threads of the CPU kernels; 0: one for each core")
      .in_range(0, 4096)
      .show_default();
  command.add_option("--batch-size", arguments->batch_size, "images a step")
      .in_range(1, 1 << 20)
      .show_default();
  command.add_option("--steps", arguments->steps, "timed steps")
      .in_range(1, 1 << 20)
      .show_default();
  command.add_option("--warmup", arguments->warmup, "steps before those, not timed")
      .in_range(0, 1 << 20)
      .show_default();
  command.add_flag("--json", arguments->json,
                   "print one JSON object for each result and nothing else");
  auto profile = command.add_flag(
      "--profile", arguments->profile,
      "where the time of a step goes: each kind of operation, against what the machine can do");
  command.add_option("--trace", arguments->trace, "file for the timeline of --profile")
      .needs(profile)
      .show_default();
  command
      .add_option("--compare", arguments->compare,
                  "side by side with another system, by turns; needs a Python with it")
      .one_of({"timm"});
  command
      .add_option(
          "--gradients", arguments->gradients,
          "time nothing; write the training step after the warm-up, to be compared: images, "
          "labels, weights.NAME, gradients.NAME")
      .type_name("FILE.safetensors");
  command.examples(
      {"fovea bench model vit_tiny_patch16_224",
       "fovea bench model vit_small_patch16_224 --mode infer --dtype bfloat16 --batch-size 64",
       "fovea bench model recipes/fashion_mnist/vit.yaml --profile"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
