// The training loop for Python, with somebody who looks on.
#include <ATen/Parallel.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/phases.h"
#include "fovea/train/trainer.h"
#include "python/fovea/src/bindings.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;

void check_one_process(const train::TrainConfig& config) {
  const auto launch = parallel::launch_from(parallel::process_environment());
  if (launch.world_size > 1) {
    fail<ConfigError>(
        "{} has started {} processes; fovea.train trains in one. Start the program in them: "
        "`{} ... fovea train RECIPE` does the same run",
        launch.launcher, launch.world_size, launch.launcher);
  }
  if (config.launch.elastic || config.launch.processes != 1) {
    fail<ConfigError>(
        "launch.{}: fovea.train trains in the process that calls it; expected launch.processes 1 "
        "and launch.elastic false, or `fovea train RECIPE`, which starts the others",
        config.launch.elastic ? "elastic" : "processes");
  }
}

// The number of threads, and what the log shows, are the caller's again when the run is done.
class CallersSettings {
 public:
  CallersSettings() : num_threads_(at::get_num_threads()), is_verbose_(is_log_verbose()) {}
  ~CallersSettings() {
    at::set_num_threads(num_threads_);
    set_log_verbose(is_verbose_);
  }
  CallersSettings(const CallersSettings&) = delete;
  CallersSettings& operator=(const CallersSettings&) = delete;

 private:
  int num_threads_;
  bool is_verbose_;
};

// `observer` outlives the run: the caller's argument holds it.
train::RunObserver observer_of(nb::handle observer) {
  if (observer.is_none()) return {};
  return [observer](const train::MetricsRecord& record) {
    const nb::gil_scoped_acquire acquired;
    return nb::cast<bool>(observer(record.split, record.step, record.epoch, record.values));
  };
}

train::FitResult fit(const train::TrainConfig& config, ProgressLine::Mode progress,
                     const train::RunObserver& observer) {
  if (config.phases.empty()) return train::Trainer(config, progress).fit(observer);
  auto whole = train::fit_phases(config, progress, parallel::World::single(), observer).back().fit;
  whole.run_dir = config.run.dir;
  return whole;
}

nb::dict train_recipe(const std::string& source, const std::vector<std::string>& overrides,
                      bool shows_progress, nb::handle observer) {
  const auto observe = observer_of(observer);
  train::FitResult result;
  int signal = 0;
  {
    const nb::gil_scoped_release released;
    const StopSignals signals;
    const CallersSettings settings;
    set_log_verbose(shows_progress);
    const auto config = train::load_any_config(source, overrides);
    check_one_process(config);
    const auto mode = shows_progress ? ProgressLine::Mode::kAuto : ProgressLine::Mode::kSilent;
    result = fit(config, mode, observe);
    signal = StopSignals::received();
  }
  nb::dict dict;
  dict["run_dir"] = result.run_dir;
  dict["step"] = result.step;
  dict["epoch"] = result.epoch;
  dict["stopped"] = result.stopped;
  dict["metrics"] = result.last_eval;
  dict["signal"] = signal;
  return dict;
}

}  // namespace

void bind_training(nb::module_& module) {
  module.def("train", train_recipe, nb::arg("source"), nb::arg("overrides"), nb::arg("progress"),
             nb::arg("observer").none());
}

}  // namespace fovea::python
