// The training loop: a recipe in, a run folder out. Everything it does can be written from public
// pieces (tests/train/hand_loop_test.cc does, and gets the same losses).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "fovea/parallel/world.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/run/progress.h"

namespace fovea::train {

struct FitResult {
  std::string run_dir;
  int64_t step = 0;
  double epoch = 0;
  bool stopped = false;                     // told to stop before the end; the state is saved
  std::map<std::string, double> last_eval;  // metrics by name
};

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
  FitResult fit();

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace fovea::train
