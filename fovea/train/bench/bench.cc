#include "fovea/train/bench/bench.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "fovea/core/cpu_time.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/kernels/device_memory.h"
#include "fovea/kernels/host_waits.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/nn/samples_apart.h"
#include "fovea/train/bench/bench_workload.h"
#include "fovea/train/bench/model_summary.h"
#include "fovea/train/bench/operation_log.h"
#include "fovea/train/session.h"

namespace fovea::train {
namespace {

// Best rate of x w^T over a few repetitions, in FLOP/s. x: [M, K], w: [N, K]. On a GPU a
// repetition is many products, for one is over before the host has told that it began.
double product_rate(const ComputeOptions& compute, int64_t repeats, int64_t M, int64_t K,
                    int64_t N) {
  const auto options = at::TensorOptions().dtype(compute.dtype).device(compute.device);
  const auto x = at::randn({M, K}, options), weight = at::randn({N, K}, options);
  const int calls = compute.device.is_cpu() ? 1 : 20;
  const auto seconds = [&](const auto& product) {
    return seconds_of(compute.device,
                      [&] {
                        for (int call = 0; call < calls; ++call) product();
                      }) /
           calls;
  };
  double best = 0;
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    const double ours = seconds([&] { kernels::linear(x, weight, at::Tensor()); });
    const double libtorchs = seconds([&] { at::linear(x, weight); });
    best = std::max(best, 2.0 * M * K * N / std::min(ours, libtorchs));
  }
  return best;
}

// Of a step. Inference on a CPU may need less than the layers tell of (read_attention.h), so what
// its operations say counts; on a GPU they may be in a graph that says nothing.
double flops_of_step(const BenchOptions& options, bool is_on_cpu, BenchWorkload& workload) {
  const auto batch = static_cast<double>(options.batch_size);
  if (options.is_training) return batch * training_flops_per_image(options.config);
  if (!is_on_cpu) return batch * inference_flops_per_image(options.config);
  OperationLog log;
  workload.step();
  double flops = 0;
  for (const auto& [name, cost] : log.take()) flops += cost.flops;
  return flops;
}

struct StepTimes {
  std::vector<double> seconds;  // ascending
  double cpu_seconds = 0;       // of all of them
};

// As a model predicts. Who looks at a step's operations has them of the whole batch.
StepTimes time_steps(const BenchOptions& options, c10::Device device, BenchWorkload& workload) {
  const nn::SamplesApartScope samples_apart;
  for (int64_t i = 0; i < options.warmup_steps; ++i) workload.step();
  StepTimes times;
  const double cpu_start = cpu_seconds();
  for (int64_t i = 0; i < options.steps; ++i) {
    times.seconds.push_back(seconds_of(device, [&] { workload.step(); }));
  }
  times.cpu_seconds = cpu_seconds() - cpu_start;
  std::sort(times.seconds.begin(), times.seconds.end());
  return times;
}

// Those of the step that has the fewest: in others a line of the log may be due.
void count_host_waits(BenchWorkload& workload, BenchResult& result) {
  constexpr int kSteps = 3;
  for (int i = 0; i < kSteps; ++i) {
    const kernels::HostWaits waits;
    workload.step();
    if (i > 0 && waits.count() >= result.host_waits) continue;
    result.host_waits = waits.count();
    result.host_waits_by_operator = waits.by_operator();
  }
}

}  // namespace

double measure_gemm_peak(const ComputeOptions& compute, const PeakProbe& probe) {
  // Wide, square, and as tall as a batch of tokens: no machine is best at the same one. The last
  // fills a GPU.
  constexpr std::array<std::array<int64_t, 3>, 4> kShapes = {
      {{2048, 2048, 2048}, {6304, 384, 1536}, {4096, 1024, 4096}, {8192, 8192, 8192}}};
  const c10::InferenceMode guard;
  double best = 0;
  for (const auto& [M, K, N] : kShapes) {
    if (M > 8000 && compute.device.is_cpu()) continue;
    best = std::max(best, product_rate(compute, probe.repeats, M / probe.shrink, K / probe.shrink,
                                       N / probe.shrink));
  }
  return best;
}

BenchResult bench_model(const BenchOptions& options) {
  FOVEA_CHECK(options.batch_size > 0 && options.steps > 0 && options.warmup_steps >= 0,
              "bench of {} steps of {} images after {}; expected at least one of each",
              options.steps, options.batch_size, options.warmup_steps);
  const auto compute = compute_options(options.config.device);
  const double peak_before = measure_gemm_peak(compute, options.peak);
  BenchWorkload workload(options);
  kernels::reset_peak_memory(compute.device);
  const auto [seconds, cpu] = time_steps(options, compute.device, workload);
  const double median = seconds[seconds.size() / 2];
  const auto batch = static_cast<double>(options.batch_size);

  BenchResult result;
  result.name = options.name;
  result.mode = options.is_training ? "train" : "infer";
  result.dtype = options.is_int8 ? "int8" : dtype_name(compute.dtype);
  result.device = compute.device.str();
  result.threads = at::get_num_threads();
  result.batch_size = options.batch_size;
  result.steps = options.steps;
  result.images_per_second = batch / median;
  result.step_ms = 1e3 * median;
  result.step_ms_min = 1e3 * seconds.front();
  result.step_ms_max = 1e3 * seconds.back();
  result.step_ms_p99 = 1e3 * seconds[(seconds.size() - 1) * 99 / 100];
  result.cpu_ms = 1e3 * cpu / static_cast<double>(options.steps);
  result.gflops_per_second =
      1e-9 * flops_of_step(options, compute.device.is_cpu(), workload) / median;
  result.peak_memory_bytes = kernels::peak_memory_bytes(compute.device);
  if (!compute.device.is_cpu()) count_host_waits(workload, result);
  result.gemm_gflops_per_second =
      1e-9 * std::max(peak_before, measure_gemm_peak(compute, options.peak));
  result.gemm_share = result.gflops_per_second / result.gemm_gflops_per_second;
  return result;
}

nn::NamedTensors bench_gradients(const BenchOptions& options) {
  FOVEA_CHECK(options.is_training, "gradients of inference; expected training");
  BenchWorkload workload(options);
  for (int64_t i = 0; i < options.warmup_steps; ++i) workload.step();
  return workload.gradients();
}

std::string BenchResult::to_json() const {
  const nlohmann::ordered_json object = {{"name", name},
                                         {"mode", mode},
                                         {"dtype", dtype},
                                         {"device", device},
                                         {"threads", threads},
                                         {"batch_size", batch_size},
                                         {"steps", steps},
                                         {"images_per_second", images_per_second},
                                         {"step_ms", step_ms},
                                         {"step_ms_min", step_ms_min},
                                         {"step_ms_max", step_ms_max},
                                         {"step_ms_p99", step_ms_p99},
                                         {"cpu_ms", cpu_ms},
                                         {"gflops_per_second", gflops_per_second},
                                         {"gemm_gflops_per_second", gemm_gflops_per_second},
                                         {"gemm_share", gemm_share},
                                         {"peak_memory_bytes", peak_memory_bytes},
                                         {"host_waits", host_waits},
                                         {"host_waits_by_operator", host_waits_by_operator}};
  return json_text(object);
}

}  // namespace fovea::train
