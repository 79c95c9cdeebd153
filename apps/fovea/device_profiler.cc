#include "apps/fovea/device_profiler.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "apps/fovea/profile_parts.h"
#include "fovea/core/error.h"
#include "fovea/core/free_memory.h"
#include "fovea/core/number_text.h"
#include "fovea/elastic/profile/collective_meter.h"
#include "fovea/elastic/profile/memory_search.h"
#include "fovea/elastic/profile/memory_trials.h"
#include "fovea/elastic/profile/pass_meter.h"
#include "fovea/elastic/profile/recipe_profile.h"
#include "fovea/kernels/device.h"
#include "fovea/kernels/device_memory.h"
#include "fovea/kernels/out_of_memory.h"
#include "fovea/train/bench/machine.h"
#include "fovea/train/evaluate/recipe_data.h"
#include "fovea/train/recipe/model_identity.h"
#include "fovea/train/session.h"

namespace fovea::app {
namespace {

constexpr double kUsable = 0.95;       // of free memory: what else the machine does changes
constexpr int64_t kMostProcesses = 8;  // for which collectives on CPUs are measured
constexpr int64_t kBytesOfValue = 4;

class OutOfMemory final : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kOutOfMemory; }
};

[[noreturn]] void no_memory(const std::string& name, double bytes) {
  fail<OutOfMemory>(
      "{}: {} of memory do not hold a step with one sample; choose a smaller model, or set "
      "parallel.recompute=block",
      name, format_bytes(bytes));
}

// Of the batches that the loader has ready, on the CPU in the same memory as the step.
double loader_bytes_of_sample(const train::TrainConfig& config) {
  double values = static_cast<double>(train::input_form_of(config.model).in_chans);
  const auto model = train::make_model_without_values(config);
  for (const auto side : model->input_spec().img_size) values *= static_cast<double>(side);
  return kBytesOfValue * values * static_cast<double>(config.data.prefetch + config.data.threads);
}

// Trained ones, as they are where passes at the same time have theirs.
double gradient_bytes(const train::TrainConfig& config) {
  int64_t values = 0;
  for (const auto& parameter : train::make_model_without_values(config)->parameters()) {
    values += parameter.numel();
  }
  return static_cast<double>(kBytesOfValue * values);
}

// What memory holds of passes.
struct HeldPasses {
  elastic::MemorySearch search;
  elastic::LargestBatch found;

  int64_t largest() const { return found.local_batch; }
  // The largest batch of each number of them at the same time, above one.
  std::map<int64_t, int64_t> largest_at_once(int64_t most_concurrent) const {
    std::map<int64_t, int64_t> largest;
    for (int64_t number = 2; number <= most_concurrent; number *= 2) {
      const auto batch = elastic::largest_at_once(search, found, number);
      if (batch > 0) largest[number] = batch;
    }
    return largest;
  }
};

HeldPasses held_passes(const train::TrainConfig& config, c10::Device device,
                       const ProfilerOptions& options, int64_t most, const std::string& name) {
  const bool is_cpu = device.is_cpu();
  const double free =
      static_cast<double>(is_cpu ? free_memory_bytes() : elastic::device_memory_bytes(device));
  elastic::MemorySearch search{.most = most,
                               .limit_bytes = kUsable * free,
                               .analytic = elastic::analytic_bytes(config, most),
                               .bytes_of_sample = is_cpu ? loader_bytes_of_sample(config) : 0,
                               .bytes_of_gradients = gradient_bytes(config)};
  auto found = elastic::find_largest_batch(search, [&](const auto& batches) {
    options.progress(fmt::format("{}: memory of a batch of {}", name, batches.back()));
    auto trials = try_batches_apart({.kind = "memory",
                                     .device = is_cpu ? "cpu" : name,
                                     .numbers = batches,
                                     .growth_bytes = static_cast<int64_t>(search.limit_bytes)});
    pause_for(options.pause);
    return trials;
  });
  if (found.local_batch == 0) no_memory(name, search.limit_bytes);
  return {std::move(search), std::move(found)};
}

std::vector<elastic::ComputationPoint> computation_of(
    const train::TrainConfig& config, elastic::PassMeter& meter, int64_t largest,
    const std::map<int64_t, int64_t>& largest_at_once, const ProfilerOptions& options,
    const std::string& name) {
  const auto device = train::compute_options(config.device).device;
  const auto measure = [&](const elastic::PassShape& shape, int64_t warmup, int64_t steps) {
    options.progress(fmt::format(
        "{}: {} of {} samples", name,
        shape.concurrent > 1 ? fmt::format("{} passes at once", shape.concurrent) : "passes",
        shape.local_batch));
    try {
      return meter.measure(shape, warmup, steps);
    } catch (const std::exception& error) {  // others may have taken memory since the trial
      if (!kernels::is_out_of_memory(error)) throw;
    }
    kernels::release_kept_memory(device);
    return std::vector<elastic::PassTimes>();
  };
  return elastic::measure_batches({.kind = options.search,
                                   .largest = largest,
                                   .largest_at_once = largest_at_once,
                                   .pause = [&] { pause_for(options.pause); }},
                                  measure);
}

// Of each batch that was measured, as many at the same time as memory holds; fewer than were found
// not to fit after all.
std::vector<elastic::MemoryPoint> memory_of(const HeldPasses& held,
                                            const std::map<int64_t, int64_t>& largest_at_once,
                                            int64_t most_concurrent,
                                            const std::vector<elastic::ComputationPoint>& points) {
  std::map<int64_t, int64_t> measured;  // the largest batch, by workers at the same time
  for (const auto& point : points) {
    auto& batch = measured[point.concurrent];
    batch = std::max(batch, point.local_batch);
  }
  std::vector<elastic::MemoryPoint> memory;
  for (const auto& point : points) {
    if (point.concurrent != 1) continue;
    const auto batch = point.local_batch;
    auto most = elastic::passes_held(held.search, held.found, batch, most_concurrent);
    for (const auto& [number, largest] : largest_at_once) {
      if (batch <= largest && batch > measured[number]) most = std::min(most, number - 1);
    }
    memory.push_back({.local_batch = batch, .max_concurrent = std::max<int64_t>(1, most)});
  }
  return memory;
}

elastic::DeviceProfile profile_device(const train::TrainConfig& recipe, const std::string& name,
                                      const ProfilerOptions& options) {
  const auto config = on_device(recipe, name);
  const auto compute = train::compute_options(config.device);
  elastic::DeviceProfile profile{
      .fingerprint = train::fingerprint_of(compute.device, at::get_num_threads()),
      .model = train::model_identity(config.model),
      .dtype = train::dtype_name(compute.dtype),
      .memory_bytes = elastic::device_memory_bytes(compute.device)};
  auto data = train::open_training_setup(config);
  const auto most = std::min(options.local_batch.value_or(config.data.global_batch_size),
                             elastic::largest_batch_of(data));
  const auto held = held_passes(config, compute.device, options, most, name);
  const auto largest = held.largest();
  options.say(fmt::format("{}: {}: holds a batch of {}{}", name, profile.fingerprint, largest,
                          largest == most ? ", the largest that was asked for" : ""));
  elastic::PassMeter meter(config, std::move(data));
  const auto largest_at_once = held.largest_at_once(meter.most_concurrent());
  profile.computation = computation_of(config, meter, largest, largest_at_once, options, name);
  if (profile.computation.empty()) no_memory(name, static_cast<double>(free_memory_bytes()));
  profile.memory = memory_of(held, largest_at_once, meter.most_concurrent(), profile.computation);
  profile.measured = train::timestamp_now();
  return profile;
}

int64_t num_processes(const train::TrainConfig& config) {
  if (config.device.type != "cpu") return kernels::load_cuda_backend().num_devices;
  const auto cores = train::this_machine().num_cores;
  if (config.device.threads <= 0) return std::min(cores, kMostProcesses);
  return std::min(std::max<int64_t>(2, cores / config.device.threads), kMostProcesses);
}

}  // namespace

std::vector<std::string> devices_of(const train::TrainConfig& config,
                                    const ProfilerOptions& options) {
  if (!options.devices.empty()) return options.devices;
  kernels::load_cuda_backend();
  return {kernels::resolve_device(config.device.type).str()};
}

std::vector<elastic::DeviceProfile> profile_devices(const train::TrainConfig& config,
                                                    const ProfilerOptions& options) {
  std::vector<elastic::DeviceProfile> profiles;
  const auto names = devices_of(config, options);
  for (const auto& name : names) on_device(config, name);  // one that is not there ends here
  std::set<std::string> seen;
  for (const auto& name : names) {
    const auto device = kernels::resolve_device(name);
    const auto own = on_device(config, name);
    train::compute_options(own.device);
    const auto kind = train::fingerprint_of(device, at::get_num_threads());
    if (!seen.insert(kind).second) {
      options.say(fmt::format("{}: {}: measured already", name, kind));
      continue;
    }
    profiles.push_back(profile_device(config, name, options));
  }
  return profiles;
}

std::vector<elastic::CommunicationPoint> profile_collectives(
    const train::TrainConfig& config, const ProfilerOptions& options,
    const std::vector<double>& bucket_megabytes) {
  const auto name = devices_of(config, options).front();
  const auto own = on_device(config, name);
  std::vector<elastic::CommunicationPoint> points;
  for (const auto processes : elastic::rank_counts(num_processes(own))) {
    options.progress(fmt::format("collectives among {} processes", processes));
    const auto found =
        collectives_of_processes({.kind = "collectives",
                                  .device = name,
                                  .numbers = elastic::sizes_to_measure(bucket_megabytes),
                                  .pause = options.pause},
                                 processes);
    points.insert(points.end(), found.begin(), found.end());
  }
  return points;
}

}  // namespace fovea::app
