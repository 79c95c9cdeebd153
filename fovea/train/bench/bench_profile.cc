#include "fovea/train/bench/bench_profile.h"

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/trace.h"
#include "fovea/train/bench/bench_workload.h"
#include "fovea/train/bench/operation_log.h"
#include "fovea/train/session.h"

namespace fovea::train {
namespace {

struct LoggedStep {
  double seconds = 0;
  std::map<std::string, OperationCost> operations;
};

std::vector<LoggedStep> log_steps(const BenchOptions& options, c10::Device device) {
  BenchWorkload workload(options);
  for (int64_t i = 0; i < options.warmup_steps; ++i) workload.step();
  std::vector<LoggedStep> steps;
  OperationLog log;
  for (int64_t i = 0; i < options.steps; ++i) {
    const trace::Scope span(options.is_training ? "training step" : "inference");
    const double seconds = seconds_of(device, [&] { workload.step(); });
    steps.push_back({seconds, log.take()});
  }
  return steps;
}

ProfileRow row_of(const std::string& name, const OperationCost& cost, double step_seconds,
                  const ProfileResult& machine) {
  const double products = 1e-9 * cost.flops / machine.gemm_gflops_per_second;
  const double memory = 1e-9 * cost.bytes / machine.memory_gigabytes_per_second;
  return {.name = name,
          .calls = cost.calls,
          .ms = 1e3 * cost.seconds,
          .share = cost.seconds / step_seconds,
          .gflops = 1e-9 * cost.flops,
          .megabytes = 1e-6 * cost.bytes,
          .floor_ms = 1e3 * std::max(products, memory)};
}

}  // namespace

double measure_memory_bandwidth(const ComputeOptions& compute, const PeakProbe& probe) {
  const int64_t elements = (int64_t{1} << 26) / probe.shrink;  // 256 MiB of float32
  const c10::InferenceMode guard;
  const auto options = at::TensorOptions().dtype(at::kFloat).device(compute.device);
  const auto a = at::ones({elements}, options), b = at::ones({elements}, options);
  auto sum = at::ones({elements}, options);
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double seconds = seconds_of(compute.device, [&] { at::add_out(sum, a, b); });
    best = std::max(best, 3.0 * sizeof(float) * static_cast<double>(elements) / seconds);
  }
  return best;
}

ProfileResult profile_model(const BenchOptions& options) {
  const auto compute = compute_options(options.config.device);
  if (!compute.device.is_cpu()) {
    fail<ConfigError>(
        "profile on {}: operations run there after they were started, and their times would be of "
        "starting them; expected cpu (--device cpu), or use the device maker's profiler",
        compute.device.str());
  }
  FOVEA_CHECK(options.batch_size > 0 && options.steps > 0 && options.warmup_steps >= 0,
              "profile of {} steps of {} images after {}; expected at least one of each",
              options.steps, options.batch_size, options.warmup_steps);
  ProfileResult result;
  result.name = options.name;
  result.mode = options.is_training ? "train" : "infer";
  result.dtype = options.is_int8 ? "int8" : dtype_name(compute.dtype);
  result.threads = at::get_num_threads();
  result.batch_size = options.batch_size;
  result.steps = options.steps;
  const double peak_before = measure_gemm_peak(compute, options.peak);
  result.memory_gigabytes_per_second = 1e-9 * measure_memory_bandwidth(compute, options.peak);
  auto steps = log_steps(options, compute.device);
  result.gemm_gflops_per_second =
      1e-9 * std::max(peak_before, measure_gemm_peak(compute, options.peak));

  const auto middle = steps.begin() + static_cast<int64_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end(),
                   [](const LoggedStep& a, const LoggedStep& b) { return a.seconds < b.seconds; });
  result.step_ms = result.outside_ms = 1e3 * middle->seconds;
  for (const auto& [name, cost] : middle->operations) {
    result.rows.push_back(row_of(name, cost, middle->seconds, result));
    result.outside_ms -= result.rows.back().ms;
  }
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.ms > b.ms; });
  return result;
}

std::string ProfileResult::to_text() const {
  constexpr double kShown = 0.001;  // of the step
  auto text = fmt::format(
      "{}, {}: {}, batch {}, {} threads; the median of {} steps: {:.1f} ms\n"
      "floors: products at {:.0f} GFLOP/s, memory at {:.1f} GB/s, as measured here\n"
      "{:<52} {:>6} {:>9} {:>7} {:>9} {:>10} {:>10} {:>8}\n",
      name, mode, dtype, batch_size, threads, steps, step_ms, gemm_gflops_per_second,
      memory_gigabytes_per_second, "operation", "calls", "ms", "share", "GFLOP", "MB", "floor ms",
      "x floor");
  double small_ms = 0, floor_ms = 0;
  int64_t small_calls = 0;
  for (const auto& row : rows) {
    floor_ms += row.floor_ms;
    if (row.share < kShown) {
      small_ms += row.ms;
      small_calls += row.calls;
      continue;
    }
    text += fmt::format("{:<52} {:>6} {:>9.2f} {:>5.1f} % {:>9.2f} {:>10.1f} {:>10.2f} {:>8}\n",
                        row.name, row.calls, row.ms, 100 * row.share, row.gflops, row.megabytes,
                        row.floor_ms, row.floor_ms > 0 ? fmt::format("{:.1f}", row.ratio()) : "-");
  }
  text += fmt::format("{:<52} {:>6} {:>9.2f} {:>5.1f} %\n", "operations below 0.1 % of the step",
                      small_calls, small_ms, 100 * small_ms / step_ms);
  text += fmt::format("{:<52} {:>6} {:>9.2f} {:>5.1f} %\n", "between operations", "", outside_ms,
                      100 * outside_ms / step_ms);
  text += fmt::format("{:<52} {:>6} {:>9.2f} {:>5.1f} % {:>9} {:>10} {:>10.2f} {:>8.1f}\n", "step",
                      "", step_ms, 100.0, "", "", floor_ms, step_ms / floor_ms);
  return text;
}

std::string ProfileResult::to_json() const {
  auto operations = nlohmann::ordered_json::array();
  for (const auto& row : rows) {
    operations.push_back({{"name", row.name},
                          {"calls", row.calls},
                          {"ms", row.ms},
                          {"share", row.share},
                          {"gflops", row.gflops},
                          {"megabytes", row.megabytes},
                          {"floor_ms", row.floor_ms}});
  }
  const nlohmann::ordered_json object = {
      {"name", name},
      {"mode", mode},
      {"dtype", dtype},
      {"device", "cpu"},
      {"threads", threads},
      {"batch_size", batch_size},
      {"steps", steps},
      {"step_ms", step_ms},
      {"outside_ms", outside_ms},
      {"gemm_gflops_per_second", gemm_gflops_per_second},
      {"memory_gigabytes_per_second", memory_gigabytes_per_second},
      {"operations", operations}};
  return json_text(object);
}

}  // namespace fovea::train
