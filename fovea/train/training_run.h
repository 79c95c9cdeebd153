// A run in this process, from its start to its end: what a recipe says, its data, its folder and
// log, and what lies on the mesh of processes that it is on at the moment.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/elastic/solve/adaptive_batch.h"
#include "fovea/kernels/measured_choices.h"
#include "fovea/optim/schedules.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/feature_cache.h"
#include "fovea/train/run/run_clock.h"
#include "fovea/train/run/run_length.h"
#include "fovea/train/run/step_trace.h"
#include "fovea/train/run/training_log.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "fovea/train/step/pass_size.h"
#include "fovea/train/step/stepper.h"
#include "fovea/train/trainer.h"

namespace fovea::train {

// How one process of a run calls its files.
struct RunProcess {
  FolderRole role = FolderRole::kOwner;
  std::string suffix = "";  // "rank1": its log is train.rank1.log; empty: train.log
};
RunProcess process_of(const parallel::World& world);

// The rows of batches that this process reads.
struct RunShares {
  data::BatchShare training, validation;
};
RunShares shares_of(const parallel::DeviceMesh& mesh, const parallel::ParallelConfig& config);

// What a run asks and tells where its members change while it goes on; see fovea/elastic/worker.h.
// All are empty where they stay.
struct RunHooks {
  // Whether this process knows that they change before step `step`; one that knows is enough.
  std::function<bool(int64_t step)> change_is_due = {};
  // What this process did of a step, before others count on it.
  std::function<void(const data::Batch& batch, int64_t step)> computed = {};
  // Of a whole step of so many rows of this process: s that it took, and of them in collectives.
  std::function<void(int64_t rows, double seconds, double comm_seconds)> timed = {};
  // Between two steps.
  std::function<void()> at_step = {};
  // Between two steps, or two batches of an evaluation.
  std::function<void()> alive = {};
  std::function<checkpoint::Publishing()> may_publish = {};
  std::function<void(const checkpoint::Published&)> published = {};
  int64_t generation = 0;  // of members; 0: lines of metrics have none

  bool are_set() const { return change_is_due != nullptr; }
};

// Its functions stand in training_run_start.cc, up to the first step, training_run_batches.cc, of
// batches that change their size, and training_run.cc.
struct TrainingRun {
  // Opens data, run folder and log. Throws ConfigError, DataError.
  TrainingRun(const TrainConfig& run_config, ProgressLine::Mode mode, const RunProcess& process,
              const RunShares& shares);

  // What lies on a mesh of processes; nothing before enter().
  struct Place {
    parallel::World* world = nullptr;
    std::unique_ptr<parallel::DeviceMesh> mesh;
    std::unique_ptr<MeshState> state;
    std::unique_ptr<StepProgress> steps;  // where they change: of the steps there
    std::unique_ptr<Stepper> stepper;
  };

  // A place on this mesh, with step-0 values, in place of the one before; world outlives it.
  // Collective.
  void enter(parallel::World& new_world, std::unique_ptr<parallel::DeviceMesh> new_mesh);
  // Goes on from the newest checkpoint, if there is any. Collective.
  void resume();
  // Goes on with a state that is laid out for this mesh, of this run. Collective.
  void take(const checkpoint::State& laid_out);
  // Once the state has its values. Collective.
  void begin();
  // Steps, with what is due after each, until the end or a stop; false: until the members change.
  // Collective.
  bool go();
  // After the last step of this start. Collective.
  FitResult conclude();
  FitResult fit();

  // A step that broke off as ranks were lost, and is done all the same: finished by itself, with
  // this outcome, or (none) before.
  void count_broken_step(const std::optional<StepOutcome>& finished);
  // Batches have another size from change_position() on. Throws ConfigError.
  void change_batch(int64_t size);
  // The same where somebody asked for it, once for each request; empty: nobody did.
  void take_batch_request(const std::string& request, int64_t size);
  // Here; before the first step behind it, as steps are counted in batches of the first one's size.
  int64_t change_position() const { return position > 0 ? position : order().position_of(1); }

  void restore(const JsonValue& scalars);
  void restore_batch(const JsonValue& scalars);
  nlohmann::json batch_scalars() const;
  void take_over();
  void start_fp8();
  void find_pass_size();
  void prepare_features();
  void train_one_step();
  void log_steps();
  void evaluate_now();
  void log_step(const StepOutcome& outcome, StepCost cost, LogPosition led_to);
  void tell_observer(const LogPosition& led_to, const std::string& split,
                     const std::map<std::string, double>& values);
  void adopt_batch_schedule(const JsonValue& scalars);
  void append_change(const data::BatchSizeChange& change);
  // Of a step that led to `led_to`: the batch follows its gradients, where it is to.
  void follow_gradients(const StepOutcome& outcome, LogPosition& led_to);
  void write_batch_sizes() const;
  void end_step();
  void save();
  void write_evaluation(const Evaluation& evaluation) const;
  void finish();
  LogPosition log_position() const;
  track::Facts facts() const;  // see TrainingLog::describe
  const data::SampleOrder& order() const { return training.loader->order(); }
  // Of the step after `steps` of them.
  double lr(int64_t steps) const;
  // Whether the last step came to a multiple of so many steps of the first batch size.
  bool has_reached_multiple_of(int64_t steps) const;
  void check_batches_done(const JsonValue& scalars) const;
  // Of the run as it stands; see MeshState::save.
  checkpoint::State checkpoint(HaveAlike alike = HaveAlike::kFirst) const;
  bool eval_is_due() const;
  bool is_over() const { return step == length.steps && !eval_is_due(); }
  StepNotes notes_of_step();
  bool anyone_is_told_to_stop();
  bool anyone_knows_of_change();
  parallel::World& world() const { return *place.world; }
  MeshState& state() const { return *place.state; }
  bool is_writer() const { return world().is_first(); }

  TrainConfig config;
  ProgressLine::Mode progress;
  RunHooks hooks = {};                           // set before enter()
  RunObserver observer = {};                     // empty: nobody looks on
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
  Place place;
  std::optional<nlohmann::json> saved_fp8;  // of the checkpoint that the run goes on from
  MetricNames checkpoint_metrics;
  std::optional<TrainingLog> log;
  std::optional<StepTrace> timeline;
  std::optional<RunClock> clock;                   // of who writes
  std::optional<elastic::AdaptiveBatch> adaptive;  // nothing: the batch does not change by itself
  std::string batch_request;               // the last one that was asked for and taken; empty: none
  data::BatchSizeChange requested_change;  // what it came to

  int64_t step = 0;      // optimizer steps done
  int64_t position = 0;  // samples consumed, over all epochs: the state of the data
  int64_t saved_step = -1, evaluated_step = -1;
  int64_t ended_step = 0;              // the last one after which all was done that was due
  bool is_stopping = false;            // equal on all ranks
  bool observer_said_stop = false;     // of this process
  bool is_changing = false;            // likewise
  const data::Batch* batch = nullptr;  // of the step under way
  // What the steps cost that are not logged yet, with where they led to.
  std::vector<std::pair<StepCost, LogPosition>> unlogged;
  std::optional<double> best;
  bool is_best = false;  // the weights as they stand gave the best metric so far
  std::map<std::string, double> last_eval;
};

}  // namespace fovea::train
