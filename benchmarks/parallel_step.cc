// Fovea's side of benchmarks/vs_torch_parallel.py: training steps of a model on several ranks.
//
//   bench_parallel_step MODEL WEIGHTS BATCH ddp|fsdp RANKS DTYPE STEPS WARMUP
// BATCH: safetensors with images [RANKS * B, C, H, W] and labels [RANKS * B], of which rank r has
// rows r * B to (r + 1) * B. The program starts its ranks itself; the first one prints one JSON
// object.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "fovea/core/cpu_time.h"
#include "fovea/core/error.h"
#include "fovea/core/memory.h"
#include "fovea/models/registry.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/optim/adamw.h"
#include "fovea/parallel/local_launch.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"

namespace fovea::train {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

struct Arguments {
  std::string model, weights, batch, mode, dtype;
  int64_t ranks = 0, steps = 0, warmup = 0;
};

TrainConfig config_of(const Arguments& arguments) {
  TrainConfig config;
  config.model = models::named_config(arguments.model);
  config.init.weights = arguments.weights;
  config.optim = {optim::AdamWConfig{}};
  config.device = {.type = "cpu", .dtype = arguments.dtype, .threads = 1};
  config.trainer.max_grad_norm = 0;
  config.parallel.dp_shard = arguments.mode == "fsdp" ? arguments.ranks : 1;
  if (arguments.mode == "fsdp" && arguments.dtype == "bfloat16") {
    config.parallel.param_dtype = "bfloat16";  // as the peer's mp_policy
  }
  return config;
}

data::Batch batch_of(const Arguments& arguments, const parallel::World& world) {
  std::map<std::string, at::Tensor> tensors;
  for (auto& [name, tensor] : nn::read_tensor_file(arguments.batch)) tensors[name] = tensor;
  const auto global = tensors.at("images").size(0), rows = global / world.size();
  const auto part = [&](const char* name) {
    return tensors.at(name).narrow(0, world.rank() * rows, rows).contiguous();
  };
  const auto images = part("images"), labels = part("labels");
  data::Batch batch;
  batch.image_shape = images.sizes().vec();
  batch.images.assign(images.data_ptr<float>(), images.data_ptr<float>() + images.numel());
  batch.labels.assign(labels.data_ptr<int64_t>(), labels.data_ptr<int64_t>() + labels.numel());
  batch.indices.resize(static_cast<size_t>(rows));
  std::iota(batch.indices.begin(), batch.indices.end(), world.rank() * rows);
  batch.rows = batch.indices;
  batch.weights.assign(static_cast<size_t>(rows), 1.0f);
  batch.global_size = global;
  batch.share = data::BatchShare::of_rank(world.rank(), world.size());
  return batch;
}

// What a run of `fovea train` is made of, and its step.
class Job {
 public:
  Job(const Arguments& arguments, parallel::World& world)
      : config_(config_of(arguments)),
        mesh_(world, parallel::mesh_shape(config_.parallel, world.size(), world.size())),
        state_(config_, mesh_, step_options(config_)),
        batch_(batch_of(arguments, world)) {}

  double step() {  // -> the mean loss of the global batch
    const auto prepared = prepare_step(state_.step_parts(), batch_, step_++);
    apply_step(state_.step_parts(), prepared, /*lr=*/1e-3);
    return outcome_of(prepared, state_.options).loss;
  }

 private:
  TrainConfig config_;
  parallel::DeviceMesh mesh_;
  MeshState state_;
  data::Batch batch_;
  int64_t step_ = 0;
};

void measure(const Arguments& arguments, parallel::World& world) {
  at::set_num_threads(1);
  const auto before = peak_memory_bytes();
  Job job(arguments, world);
  world.all().barrier("all are ready");
  reset_peak_memory();
  std::vector<double> losses, seconds;
  for (int64_t i = 0; i < arguments.warmup; ++i) losses.push_back(job.step());
  world.take_wait_seconds();
  const double cpu_start = cpu_seconds();
  for (int64_t i = 0; i < arguments.steps; ++i) {
    const auto start = Clock::now();
    losses.push_back(job.step());
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const double cpu_ms = 1e3 * (cpu_seconds() - cpu_start) / static_cast<double>(arguments.steps);
  const double wait_ms = 1e3 * world.take_wait_seconds() / static_cast<double>(arguments.steps);
  std::sort(seconds.begin(), seconds.end());
  const json own = {{"step_ms", 1e3 * seconds[seconds.size() / 2]},
                    {"cpu_ms", cpu_ms},
                    {"wait_ms", wait_ms},
                    {"peak_memory_bytes", peak_memory_bytes()},
                    {"bytes_before", before}};
  json all = {{"losses", losses}, {"ranks", json::array()}};
  for (const auto& text : parallel::all_gather_text(world.all(), own.dump(), "measurements")) {
    all["ranks"].push_back(json::parse(text));
  }
  if (world.is_first()) std::cout << all.dump() << std::endl;
}

Arguments parse(int argc, char** argv) {
  if (argc != 9 || (std::string(argv[4]) != "ddp" && std::string(argv[4]) != "fsdp")) {
    fail<ConfigError>(
        "usage: {} MODEL WEIGHTS BATCH ddp|fsdp RANKS DTYPE STEPS WARMUP; found {} arguments",
        argv[0], argc - 1);
  }
  return {.model = argv[1],
          .weights = argv[2],
          .batch = argv[3],
          .mode = argv[4],
          .dtype = argv[6],
          .ranks = std::stoll(argv[5]),
          .steps = std::stoll(argv[7]),
          .warmup = std::stoll(argv[8])};
}

int run(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  const auto launch = parallel::launch_from(parallel::process_environment());
  if (launch.world_size == 1 && arguments.ranks > 1) {
    const auto done = parallel::run_local_ranks(parallel::own_command(),
                                                {.processes = arguments.ranks, .grace = 5});
    if (!done.message.empty()) std::cerr << done.message << "\n";
    return done.exit_code;
  }
  parallel::World world(launch, {.processes = 1, .timeout = 120});
  measure(arguments, world);
  world.leave();
  return 0;
}

}  // namespace
}  // namespace fovea::train

int main(int argc, char** argv) {
  try {
    return fovea::train::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    std::_Exit(1);  // threads may wait for other ranks
  }
}
