#include "fovea/elastic/profile/memory_trials.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "fovea/core/error.h"
#include "fovea/core/free_memory.h"
#include "fovea/elastic/profile/recipe_profile.h"
#include "fovea/kernels/device.h"
#include "fovea/kernels/device_memory.h"
#include "fovea/kernels/out_of_memory.h"
#include "fovea/parallel/mesh_shape.h"
#include "fovea/plan/rehearsal.h"
#include "fovea/train/bench/bench_workload.h"
#include "fovea/train/session.h"

namespace fovea::elastic {
namespace {

constexpr int64_t kSteps = 2;  // the first one makes what the second one finds

// Stacks and heaps of threads are address space, not memory: they are there before it is limited.
void start_threads() {
  at::parallel_for(0, at::get_num_threads(), 1,
                   [](int64_t, int64_t) { std::vector<char>(1 << 12).back() = 1; });
}

void be_first_to_end() { std::ofstream("/proc/self/oom_score_adj") << "1000"; }

bool is_lack_of_memory(const std::exception& error) {
  if (kernels::is_out_of_memory(error)) return true;
  const auto* system = dynamic_cast<const std::system_error*>(&error);  // no room for a thread
  return system && system->code() == std::errc::resource_unavailable_try_again;
}

// base_bytes: what the process has without any of it.
MemoryTrial try_batch(const train::TrainConfig& config, c10::Device device, int64_t batch,
                      int64_t base_bytes) {
  MemoryTrial trial{.batch = batch};
  kernels::reset_peak_memory(device);
  try {
    train::BenchWorkload workload({.name = {},
                                   .config = config,
                                   .is_recipe = true,
                                   .is_training = true,
                                   .batch_size = batch});
    for (int64_t step = 0; step < kSteps; ++step) workload.step();
    kernels::synchronize(device);
    trial.fits = true;
  } catch (const std::exception& error) {
    if (!is_lack_of_memory(error)) throw;
  }
  trial.peak_bytes = kernels::peak_memory_bytes(device) - base_bytes;
  return trial;
}

}  // namespace

void run_memory_trials(const train::TrainConfig& config, const std::vector<int64_t>& batches,
                       int64_t growth_bytes,
                       const std::function<void(const MemoryTrial&)>& report) {
  const auto device = train::compute_options(config.device).device;
  int64_t base_bytes = 0;
  if (device.is_cpu()) {
    be_first_to_end();
    start_threads();
    kernels::reset_peak_memory(device);
    base_bytes = kernels::peak_memory_bytes(device);
    limit_growth(growth_bytes);
  }
  for (const auto batch : batches) {
    const auto trial = try_batch(one_pass_config(config, batch), device, batch, base_bytes);
    report(trial);
    if (!trial.fits) return;
    kernels::release_kept_memory(device);
  }
}

std::function<double(int64_t)> analytic_bytes(const train::TrainConfig& config, int64_t most) {
  const auto bytes_of = [&](int64_t batch) {
    const auto rehearsal = plan::rehearse(one_pass_config(config, batch), parallel::MeshShape(), 0);
    return static_cast<double>(rehearsal.memory.peak());
  };
  try {
    // A pass of few samples may have its peak elsewhere: in the optimizer.
    const int64_t high = std::max<int64_t>(2, most), low = std::max<int64_t>(1, high / 2);
    const double least = bytes_of(1), at_low = bytes_of(low), at_high = bytes_of(high);
    const double slope = (at_high - at_low) / static_cast<double>(high - low);
    return [=](int64_t batch) {
      return std::max(least, at_low + slope * static_cast<double>(batch - low));
    };
  } catch (const ConfigError&) {
    return [](int64_t batch) { return static_cast<double>(batch); };
  }
}

}  // namespace fovea::elastic
