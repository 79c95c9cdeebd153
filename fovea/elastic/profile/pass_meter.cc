#include "fovea/elastic/profile/pass_meter.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/data/loader.h"
#include "fovea/elastic/profile/part_clock.h"
#include "fovea/elastic/profile/recipe_profile.h"
#include "fovea/kernels/device.h"
#include "fovea/parallel/mesh.h"
#include "fovea/train/bench/bench_workload.h"
#include "fovea/train/session.h"
#include "fovea/train/state/concurrent_start.h"
#include "fovea/train/state/mesh_state.h"
#include "fovea/train/step/concurrent_passes.h"
#include "fovea/train/step/stepper.h"
#include "fovea/train/tasks/observed_task.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRate = 1e-6;  // of learning: weights stay about what they are

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

train::TrainConfig for_measuring(const train::TrainConfig& recipe) {
  auto config = one_pass_config(recipe, recipe.data.global_batch_size);
  config.data.drop_last = false;  // batches of any size are asked for below
  return config;
}

data::Loader loader_of(const data::LoaderSetup& data, int64_t batch) {
  auto options = data.options;
  options.global_batch_size = batch;
  options.batch_schedule = {};
  options.drop_last = true;  // all are of this size
  options.prefetch = 1;      // see Note [Measured passes]
  return {data.dataset, data.transforms, options};
}

}  // namespace

int64_t largest_batch_of(const data::LoaderSetup& data) {
  const auto& sets = data.options.mix.set_sizes;
  const auto all = loader_of(data, 1).samples_per_epoch();
  return sets.empty() ? all : std::min(all, *std::min_element(sets.begin(), sets.end()));
}

PassTimes median_of(std::vector<PassTimes> steps) {
  FOVEA_CHECK(!steps.empty(), "the median of no steps");
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  const auto of = [&](double PassTimes::*part) {
    std::nth_element(steps.begin(), middle, steps.end(),
                     [&](const auto& a, const auto& b) { return a.*part < b.*part; });
    return (*middle).*part;
  };
  return {.data_ms = of(&PassTimes::data_ms),
          .forward_ms = of(&PassTimes::forward_ms),
          .backward_ms = of(&PassTimes::backward_ms),
          .update_ms = of(&PassTimes::update_ms)};
}

// Steps of so many passes at the same time.
struct MeasuredSteps {
  MeasuredSteps(const train::MeshState& state, const train::Task& timed_task, TimedSync& sync,
                int64_t concurrent);

  void set_batch(int64_t local_batch) {
    timed_options.micro_batch_size = whole_options.micro_batch_size = local_batch;
  }

  std::unique_ptr<train::ConcurrentPasses> concurrent;  // null: one
  train::StepOptions timed_options, whole_options;
  train::Stepper timed;
  std::optional<train::Stepper> whole;  // on a device that works in the background
};

namespace {

train::StepParts parts_of(const train::MeshState& state, const train::Task& task,
                          const train::StepOptions& options) {
  return {.model = *state.model,
          .task = task,
          .optimizer = *state.optimizer,
          .options = options,
          .ema = state.ema.get()};
}

train::StepOptions options_with(train::StepOptions options, parallel::GradientSync* sync,
                                train::ConcurrentPasses* concurrent) {
  options.sync = sync;
  options.concurrent = concurrent;
  return options;
}

}  // namespace

MeasuredSteps::MeasuredSteps(const train::MeshState& state, const train::Task& timed_task,
                             TimedSync& sync, int64_t number)
    : concurrent(number == 1 ? nullptr
                             : std::make_unique<train::ConcurrentPasses>(
                                   number, number, state.options.compute.device)),
      timed_options(options_with(state.options, &sync, concurrent.get())),
      whole_options(options_with(state.options, state.options.sync, concurrent.get())),
      timed(parts_of(state, timed_task, timed_options), train::Numbers::kAtOnce) {
  const auto device = state.options.compute.device;
  if (device.is_cpu()) return;
  whole.emplace(parts_of(state, *state.task, whole_options), train::numbers_on(device));
  if (number == 1) train::use_graphs(*whole, state.config.device, device);
}

struct PassMeter::State {
  State(const train::TrainConfig& recipe, data::LoaderSetup data);

  MeasuredSteps& steps_of(const PassShape& shape);
  PassTimes timed_step(data::Loader& loader, MeasuredSteps& steps, int64_t concurrent);
  double whole_step_ms(data::Loader& loader, MeasuredSteps& steps, int64_t warmup, int64_t count);
  c10::Device device() const { return mesh_state.options.compute.device; }

  const train::TrainConfig config;
  data::LoaderSetup setup;
  parallel::DeviceMesh mesh{parallel::World::single(), {}};
  train::MeshState mesh_state;
  int64_t most_concurrent;
  PartClock clock;
  TimedSync sync;
  train::ObservedTask task;
  std::map<int64_t, std::unique_ptr<MeasuredSteps>> by_concurrent;
  int64_t step = 0;
};

PassMeter::State::State(const train::TrainConfig& recipe, data::LoaderSetup data)
    : config(for_measuring(recipe)),
      setup(std::move(data)),
      mesh_state(config, mesh, train::step_options(config)),
      most_concurrent(train::most_concurrent(recipe, *mesh_state.model, mesh_state.options)),
      clock(device()),
      sync(*mesh_state.options.sync, clock),
      task(*mesh_state.task, {.before_loss = [this] { clock.start(); },
                              .after_loss = [this] { clock.stop(&PassTimes::forward_ms); }}) {
  mesh_state.start_fp8(config.data.global_batch_size, /*saved=*/nullptr);
  mesh_state.model->train();
}

MeasuredSteps& PassMeter::State::steps_of(const PassShape& shape) {
  auto& found = by_concurrent[shape.concurrent];
  if (!found) found = std::make_unique<MeasuredSteps>(mesh_state, task, sync, shape.concurrent);
  found->set_batch(shape.local_batch);
  return *found;
}

PassTimes PassMeter::State::timed_step(data::Loader& loader, MeasuredSteps& steps,
                                       int64_t concurrent) {
  clock.begin_step(concurrent);
  const auto begin = Clock::now();
  auto batch = loader.next();
  const double loader_ms = milliseconds(Clock::now() - begin);
  auto input = train::input_of(batch, parts_of(mesh_state, *mesh_state.task, steps.timed_options));
  input.tensors = [this, make = std::move(input.tensors)](int64_t first, int64_t last) {
    clock.start();
    auto tensors = make(first, last);
    clock.stop(&PassTimes::data_ms);
    return tensors;
  };
  steps.timed.take(input, step++, kRate);
  steps.timed.outcomes();
  kernels::synchronize(device());
  auto times = clock.times;
  times.data_ms += loader_ms;
  times.update_ms = std::max(0.0, milliseconds(Clock::now() - begin) - times.total_ms());
  loader.recycle(std::move(batch));
  return times;
}

double PassMeter::State::whole_step_ms(data::Loader& loader, MeasuredSteps& steps, int64_t warmup,
                                       int64_t count) {
  Clock::time_point begin;
  for (int64_t i = 0; i < warmup + count; ++i) {
    if (i == warmup) {
      kernels::synchronize(device());
      begin = Clock::now();
    }
    auto batch = loader.next();
    steps.whole->take(batch, step++, kRate);
    loader.recycle(std::move(batch));
  }
  steps.whole->outcomes();
  kernels::synchronize(device());
  return milliseconds(Clock::now() - begin) / static_cast<double>(count);
}

PassMeter::PassMeter(const train::TrainConfig& config, data::LoaderSetup data)
    : state_(std::make_unique<State>(config, std::move(data))) {}
PassMeter::~PassMeter() = default;

int64_t PassMeter::most_concurrent() const { return state_->most_concurrent; }

std::vector<PassTimes> PassMeter::measure(const PassShape& shape, int64_t warmup, int64_t steps) {
  FOVEA_CHECK(shape.local_batch >= 1 && shape.concurrent >= 1 && steps >= 1 &&
                  shape.concurrent <= state_->most_concurrent,
              "{} steps of {} workers of {} samples; expected up to {} workers", steps,
              shape.concurrent, shape.local_batch, state_->most_concurrent);
  auto loader = loader_of(state_->setup, shape.concurrent * shape.local_batch);
  auto& parts = state_->steps_of(shape);
  std::vector<PassTimes> found;
  for (int64_t i = 0; i < warmup + steps; ++i) {
    const auto times = state_->timed_step(loader, parts, shape.concurrent);
    if (i >= warmup) found.push_back(times);
  }
  if (!parts.whole) return found;
  const double factor =
      state_->whole_step_ms(loader, parts, warmup, steps) / median_of(found).total_ms();
  for (auto& times : found) {
    times = {.data_ms = factor * times.data_ms,
             .forward_ms = factor * times.forward_ms,
             .backward_ms = factor * times.backward_ms,
             .update_ms = factor * times.update_ms};
  }
  return found;
}

}  // namespace fovea::elastic
