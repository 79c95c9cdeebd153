#include "fovea/elastic/profile/pass_meter.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/data/loader.h"
#include "fovea/elastic/profile/recipe_profile.h"
#include "fovea/kernels/device.h"
#include "fovea/parallel/mesh.h"
#include "fovea/train/bench/bench_workload.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "fovea/train/step/stepper.h"
#include "fovea/train/tasks/observed_task.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRate = 1e-6;  // of learning: weights stay about what they are

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

// Of the parts of a step: one at a time runs.
class PartClock {
 public:
  explicit PartClock(c10::Device device) : device_(device) {}

  void start() {
    kernels::synchronize(device_);
    begin_ = Clock::now();
  }
  void stop(double& part) {
    kernels::synchronize(device_);
    part += milliseconds(Clock::now() - begin_);
  }

  PassTimes times = {};

 private:
  c10::Device device_;
  Clock::time_point begin_{};
};

// The gradients' sync of the run, with a clock about each backward.
class TimedSync final : public parallel::GradientSync {
 public:
  TimedSync(parallel::GradientSync& sync, PartClock& clock) : sync_(sync), clock_(clock) {}

  void begin_pass(bool is_accompanied) override { sync_.begin_pass(is_accompanied); }
  void end_pass() override { sync_.end_pass(); }
  void before_backward(bool is_last) override {
    sync_.before_backward(is_last);
    clock_.start();
  }
  void after_backward() override {
    clock_.stop(clock_.times.backward_ms);
    sync_.after_backward();
  }
  void finish() override { sync_.finish(); }
  bool meets_in_passes() const override { return sync_.meets_in_passes(); }

 private:
  parallel::GradientSync& sync_;
  PartClock& clock_;
};

namespace {

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

struct PassMeter::State {
  State(const train::TrainConfig& recipe, data::LoaderSetup data);

  PassTimes timed_step(data::Loader& loader);
  double whole_step_ms(data::Loader& loader, int64_t warmup, int64_t steps);
  c10::Device device() const { return mesh_state.options.compute.device; }

  const train::TrainConfig config;
  data::LoaderSetup setup;
  parallel::DeviceMesh mesh{parallel::World::single(), {}};
  train::MeshState mesh_state;
  PartClock clock;
  TimedSync sync;
  train::ObservedTask task;
  train::StepOptions timed_options;
  std::optional<train::Stepper> timed, whole;
  int64_t step = 0;
};

PassMeter::State::State(const train::TrainConfig& recipe, data::LoaderSetup data)
    : config(for_measuring(recipe)),
      setup(std::move(data)),
      mesh_state(config, mesh, train::step_options(config)),
      clock(device()),
      sync(*mesh_state.options.sync, clock),
      task(*mesh_state.task, {.before_loss = [this] { clock.start(); },
                              .after_loss = [this] { clock.stop(clock.times.forward_ms); }}) {
  mesh_state.start_fp8(config.data.global_batch_size, /*saved=*/nullptr);
  mesh_state.model->train();
  timed_options = mesh_state.options;
  timed_options.sync = &sync;
  timed.emplace(train::StepParts{.model = *mesh_state.model,
                                 .task = task,
                                 .optimizer = *mesh_state.optimizer,
                                 .options = timed_options,
                                 .ema = mesh_state.ema.get()},
                train::Numbers::kAtOnce);
  if (device().is_cpu()) return;
  whole.emplace(mesh_state.step_parts(), train::numbers_on(device()));
  train::use_graphs(*whole, config.device, device());
}

PassTimes PassMeter::State::timed_step(data::Loader& loader) {
  clock.times = {};
  const auto begin = Clock::now();
  auto batch = loader.next();
  clock.times.data_ms = milliseconds(Clock::now() - begin);
  auto input = train::input_of(batch, {.model = *mesh_state.model,
                                       .task = *mesh_state.task,
                                       .optimizer = *mesh_state.optimizer,
                                       .options = timed_options});
  input.tensors = [this, make = std::move(input.tensors)](int64_t first, int64_t last) {
    clock.start();
    auto tensors = make(first, last);
    clock.stop(clock.times.data_ms);
    return tensors;
  };
  timed->take(input, step++, kRate);
  timed->outcomes();
  kernels::synchronize(device());
  auto times = clock.times;
  times.update_ms = std::max(0.0, milliseconds(Clock::now() - begin) - times.total_ms());
  loader.recycle(std::move(batch));
  return times;
}

double PassMeter::State::whole_step_ms(data::Loader& loader, int64_t warmup, int64_t steps) {
  Clock::time_point begin;
  for (int64_t i = 0; i < warmup + steps; ++i) {
    if (i == warmup) {
      kernels::synchronize(device());
      begin = Clock::now();
    }
    auto batch = loader.next();
    whole->take(batch, step++, kRate);
    loader.recycle(std::move(batch));
  }
  whole->outcomes();
  kernels::synchronize(device());
  return milliseconds(Clock::now() - begin) / static_cast<double>(steps);
}

PassMeter::PassMeter(const train::TrainConfig& config, data::LoaderSetup data)
    : state_(std::make_unique<State>(config, std::move(data))) {}
PassMeter::~PassMeter() = default;

std::vector<PassTimes> PassMeter::measure(const PassShape& shape, int64_t warmup, int64_t steps) {
  FOVEA_CHECK(shape.local_batch >= 1 && shape.concurrent == 1 && steps >= 1,
              "{} steps of {} workers of {} samples; expected one worker at a time", steps,
              shape.concurrent, shape.local_batch);
  auto loader = loader_of(state_->setup, shape.local_batch);
  std::vector<PassTimes> found;
  for (int64_t i = 0; i < warmup + steps; ++i) {
    const auto times = state_->timed_step(loader);
    if (i >= warmup) found.push_back(times);
  }
  if (!state_->whole) return found;
  const double factor = state_->whole_step_ms(loader, warmup, steps) / median_of(found).total_ms();
  for (auto& times : found) {
    times = {.data_ms = factor * times.data_ms,
             .forward_ms = factor * times.forward_ms,
             .backward_ms = factor * times.backward_ms,
             .update_ms = factor * times.update_ms};
  }
  return found;
}

}  // namespace fovea::elastic
