// fovea bench model|data ...
#include "apps/fovea/commands/bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/overrides.h"
#include "fovea/core/config.h"
#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/train/bench.h"
#include "fovea/train/config.h"
#include "fovea/train/session.h"

namespace fovea::app {
namespace {

struct BenchArguments {
  std::string model;
  std::vector<std::string> overrides;
  std::string mode = "both";
  std::string device = "auto";
  std::string dtype = "float32";
  int64_t threads = 0;
  int64_t batch_size = 32;
  int64_t steps = 10;
  int64_t warmup = 3;
  bool json = false;
};

bool is_recipe(const std::string& text) {
  const auto extension = std::filesystem::path(text).extension();
  return extension == ".yaml" || extension == ".yml";
}

train::BenchOptions bench_options(const BenchArguments& arguments) {
  train::BenchOptions options;
  options.name = arguments.model;
  if (is_recipe(arguments.model)) {
    options.model = load_config<train::TrainConfig>(arguments.model, arguments.overrides).model;
    options.name = std::filesystem::path(arguments.model).stem().string();
  } else if (!arguments.overrides.empty()) {
    fail<ConfigError>("'{}' changes a recipe, but {} is the name of a model; give a recipe (.yaml)",
                      arguments.overrides.front(), arguments.model);
  } else {
    options.model = models::named_config(arguments.model);
  }
  options.batch_size = arguments.batch_size;
  options.steps = arguments.steps;
  options.warmup_steps = arguments.warmup;
  options.compute = train::compute_options(
      {.type = arguments.device, .dtype = arguments.dtype, .threads = arguments.threads});
  return options;
}

void print(const train::BenchResult& result, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", result.to_json());
    return;
  }
  fmt::print("{}, {}: {} on {}, batch {}, {} threads\n", result.name, result.mode, result.dtype,
             result.device, result.batch_size, result.threads);
  fmt::print("  {:.1f} img/s   step {:.1f} ms (median of {}; {:.1f} to {:.1f})\n",
             result.images_per_second, result.step_ms, result.steps, result.step_ms_min,
             result.step_ms_max);
  fmt::print(
      "  {:.0f} GFLOP/s, {:.0f} % of the {:.0f} that matrix products reach here   peak memory "
      "{:.0f} MiB\n",
      result.gflops_per_second, 100 * result.gemm_share, result.gemm_gflops_per_second,
      static_cast<double>(result.peak_memory_bytes) / (1 << 20));
}

void run(const BenchArguments& arguments) {
  auto options = bench_options(arguments);
  for (const bool is_training : {true, false}) {
    if (arguments.mode != "both" && (arguments.mode == "train") != is_training) continue;
    options.is_training = is_training;
    print(train::bench_model(options), arguments.json);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* bench = app.add_subcommand("bench", "Measure the speed of a model or of its data");
  bench->require_subcommand(1);
  add_bench_data(*bench);
  auto* command = bench->add_subcommand(
      "model",
      "Images a second, step time, share of the machine's matrix-product peak, peak memory");
  auto arguments = std::make_shared<BenchArguments>();
  command
      ->add_option("model", arguments->model,
                   "name of a model (see: fovea list models), or a recipe")
      ->required()
      ->type_name("NAME|RECIPE");
  add_overrides(*command, arguments->overrides, "model.depth=6");
  command->add_option("--mode", arguments->mode, "train, infer or both")
      ->check(CLI::IsMember({"train", "infer", "both"}))
      ->capture_default_str();
  command->add_option("--device", arguments->device, "auto, cpu, cuda or cuda:N")
      ->capture_default_str();
  command->add_option("--dtype", arguments->dtype, "dtype of activations and products")
      ->check(CLI::IsMember({"float32", "bfloat16", "auto"}))
      ->capture_default_str();
  command
      ->add_option("--threads", arguments->threads,
                   "threads of the CPU kernels; 0: one for each core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_option("--batch-size", arguments->batch_size, "images a step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--steps", arguments->steps, "timed steps")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--warmup", arguments->warmup, "steps before those, not timed")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_flag("--json", arguments->json,
                    "print one JSON object for each result and nothing else");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
