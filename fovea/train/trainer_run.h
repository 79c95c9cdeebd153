// What a Trainer is inside: a run from its start to its end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/kernels/measured_choices.h"
#include "fovea/optim/schedules.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/feature_cache.h"
#include "fovea/train/run/run_length.h"
#include "fovea/train/run/step_trace.h"
#include "fovea/train/run/training_log.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "fovea/train/step/pass_size.h"
#include "fovea/train/step/stepper.h"
#include "fovea/train/trainer.h"

namespace fovea::train {

// Its functions stand in trainer_start.cc, up to the first step, and trainer.cc.
struct Trainer::Run {
  Run(const TrainConfig& run_config, ProgressLine::Mode mode, parallel::World& run_world);

  FitResult fit();
  void resume();
  void restore(const JsonValue& scalars);
  void take_over();
  void start_fp8();
  void find_pass_size();
  void prepare_features();
  void train_one_step();
  void log_steps();
  void evaluate_now();
  void end_step();
  void save();
  void write_evaluation(const Evaluation& evaluation) const;
  void finish();
  LogPosition log_position() const;
  const data::SampleOrder& order() const { return training.loader->order(); }
  // Of the step after `steps` of them.
  double lr(int64_t steps) const { return schedule.lr(order().first_size_steps(steps)); }
  // Whether the last step came to a multiple of so many steps of the first batch size.
  bool has_reached_multiple_of(int64_t steps) const;
  void check_batches_done(const JsonValue& scalars) const;
  checkpoint::State checkpoint();
  bool eval_is_due() const;
  bool is_over() const { return step == length.steps && !eval_is_due(); }
  bool anyone_is_told_to_stop();
  bool is_writer() const { return world.is_first(); }

  TrainConfig config;
  parallel::World& world;
  parallel::DeviceMesh mesh;
  std::unique_ptr<FeatureCache> training_cache;  // null: pixels are read
  DatasetWithLoader training;
  RunLength length;
  int64_t eval_every_steps;  // of the first batch size
  optim::Schedule schedule;
  RunFolder folder;  // from here on: a recipe that the data shows to be faulty leaves none
  LogFile log_file;
  kernels::KeptChoices attention, products;  // measured on a GPU, for when the run goes on
  std::unique_ptr<FeatureCache> validation_cache;
  DatasetWithLoader validation;
  std::unique_ptr<FeatureSource> backbone;  // frozen, without a cache
  std::unique_ptr<PassSize> passes;         // null: a size was given
  MeshState state;
  MetricNames checkpoint_metrics;
  std::optional<nlohmann::json> saved_fp8;  // of the checkpoint that the run goes on from
  std::optional<Stepper> stepper;
  TrainingLog log;
  StepTrace timeline;

  int64_t step = 0;      // optimizer steps done
  int64_t position = 0;  // samples consumed, over all epochs: the state of the data
  int64_t saved_step = -1, evaluated_step = -1;
  bool is_stopping = false;  // equal on all ranks
  // What the steps cost that are not logged yet, with where they led to.
  std::vector<std::pair<StepCost, LogPosition>> unlogged;
  std::optional<double> best;
  bool is_best = false;  // the weights as they stand gave the best metric so far
  std::map<std::string, double> last_eval;
};

}  // namespace fovea::train
