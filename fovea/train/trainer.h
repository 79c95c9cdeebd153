// The training loop: a recipe in, a run folder out. Everything it does can be written from public
// pieces (tests/train/hand_loop_test.cc does, and gets the same losses).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "fovea/parallel/world.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/run/metrics_writer.h"
#include "fovea/train/run/progress.h"

namespace fovea::train {

struct FitResult {
  std::string run_dir;
  int64_t step = 0;
  double epoch = 0;
  bool stopped = false;                     // told to stop before the end; the state is saved
  std::map<std::string, double> last_eval;  // metrics by name
};

// Told of each step (split "train") and each evaluation ("val") as its numbers come, in the thread
// that trains. False: the run is to stop, as a stop signal would have it; of several processes one
// that says so is enough, and they stop one step later. What it throws ends the run as a fault of
// its own does.
using RunObserver = std::function<bool(const MetricsRecord& record)>;

class Trainer {
 public:
  // world: the processes that train together, as config.parallel lays them out. Each makes a
  // Trainer of the same config; the first one writes the run folder. The world outlives the
  // trainer.
  explicit Trainer(const TrainConfig& config,
                   ProgressLine::Mode progress = ProgressLine::Mode::kAuto,
                   parallel::World& world = parallel::World::single());
  ~Trainer();

  // Trains to the end, or goes on from the run folder's last good checkpoint. Returns early, with
  // the state saved, when a stop signal comes. Throws DivergedError, DataError, CheckpointError;
  // the last good checkpoint stands. Collective over the world: stops on all ranks at the same
  // step.
  FitResult fit(RunObserver observer = {});

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace fovea::train
