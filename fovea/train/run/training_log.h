// What a run says of itself while it trains: lines of metrics.jsonl, TensorBoard events, the
// progress line, and the same as text in train.log.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/checkpoint/publishing.h"
#include "fovea/core/json.h"
#include "fovea/core/machine_load.h"
#include "fovea/data/loader.h"
#include "fovea/track/mlflow_follower.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/run/metrics_writer.h"
#include "fovea/train/run/progress.h"
#include "fovea/train/run/rank_times.h"
#include "fovea/train/run/tensorboard.h"
#include "fovea/train/run/wandb.h"
#include "fovea/train/step/step.h"

namespace fovea::train {

// Where training stands.
struct LogPosition {
  int64_t step = 0;  // steps done
  int64_t num_steps = 0;
  double epoch = 0;  // passes over the data done
  double lr = 0;     // of the last step
  // In steps of the first batch size: where the last step began, and what the whole run and an
  // epoch have of them.
  double first_size_step = 0;
  int64_t first_size_steps = 0;
  int64_t steps_per_epoch = 0;
  int64_t samples_left = 0;  // of the run
  int64_t batch_size = 0;    // of the last step; 0: it cannot change, and lines do not have it
  int64_t generation = 0;    // of members; 0: they do not change, and lines do not have it
  // Of the gradients of a batch's halves, where it follows them; see elastic::AdaptiveBatch.
  std::optional<double> similarity = {}, noise_scale = {};
};

// What a step cost this process.
struct StepCost {
  int64_t images = 0;
  double seconds = 0;
  double wait_seconds = 0;  // for samples
  double comm_seconds = 0;  // in collectives
};

class TrainingLog {
 public:
  // A silent one writes no file of the run folder, and keeps all the same sums: of several
  // processes one talks.
  enum class Role { kWriter, kSilent };
  TrainingLog(const std::string& run_dir, const LogConfig& config, ProgressLine::Mode mode,
              Role role = Role::kWriter);
  // From the next start() on. A writer goes on where the one before has stopped: with the lines
  // that are not in the file yet.
  void set_role(Role role);
  // Asked before lines are written; empty: they may be.
  void set_fence(std::function<checkpoint::Publishing()> may_publish) {
    may_publish_ = std::move(may_publish);
  }

  // Whether `add` writes a line at the last of the next `steps`, of which the last leads to
  // `position`.
  bool is_line_due(int64_t steps, const LogPosition& position) const;
  // Takes a step in; writes a line after every log.every_steps of them.
  void add(const StepOutcome& outcome, const StepCost& cost, const LogPosition& position);
  // Writes the metrics of an evaluation as a line of split "val". num_left_out: samples that it
  // could not read.
  void add_evaluation(const std::map<std::string, double>& metrics, int64_t num_left_out,
                      const LogPosition& position);

  // Has the bad samples of a loader, which outlives the log, in what is written: split "train" or
  // "val". Call before restore and start.
  void watch(const std::string& split, data::Loader& loader);
  // Lines tell where the ranks' time goes: from now on `add` is collective over them when a line is
  // due. `ranks` outlives the log; null: there are none.
  void compare(parallel::Communicator* ranks) { ranks_ = ranks; }
  // Lines have mfu: images_per_second in terms of log.peak_tflops of each of num_ranks devices.
  void count_flops(double flops_per_image, int64_t num_ranks);
  // Says where the ranks' time went since the start, where there are several.
  void say_ranks();
  // Of the last evaluation.
  int64_t num_left_out() const { return num_left_out_; }

  // The sums since the last line, to be saved with a checkpoint: a resumed run writes the same
  // lines.
  nlohmann::json state() const;
  // Throws DataError where the state is damaged.
  void restore(const JsonValue& state);
  // Call before the first step, and after each change of role: cuts off what was written after
  // `step` and starts who follows.
  void start(int64_t step);

  // Writes what waits, where it may be written now -> whether nothing waits any more.
  bool publish();

  // Facts of the run that its folder does not have, for whoever follows it. Call before start.
  void describe(track::Facts facts) { facts_ = std::move(facts); }
  // Tells who follows how the run has ended, when all of its files are written, and waits some
  // seconds for them.
  void end_following(track::RunEnd end);

  // A line that stays, on the terminal and in train.log.
  void say(const std::string& text);
  ProgressLine& progress() { return progress_; }

 private:
  struct Window {
    double loss_sum = 0, weight = 0, grad_norm_sum = 0;
    int64_t steps = 0, skipped_steps = 0;
    double loss_scale = 0;  // after the last step; 0: losses are not scaled
    std::map<std::string, double> sums;
    StepCost cost;
  };

  void write_line(const LogPosition& position);
  void add_rank_times(MetricsRecord& record);
  std::string progress_text(const LogPosition& position);
  void watch_machine();
  void open_files();
  void start_followers();
  void write(MetricsRecord record);
  void write_to_files(const MetricsRecord& record);
  void write_bad_samples();

  std::string run_dir_;
  LogConfig config_;
  ProgressLine::Mode mode_;
  std::unique_ptr<MetricsWriter> metrics_;  // null: silent
  std::unique_ptr<TensorboardWriter> tensorboard_;
  std::unique_ptr<WandbFollower> wandb_;
  std::unique_ptr<track::MlflowFollower> mlflow_;
  track::Facts facts_;
  ProgressLine progress_;
  std::function<checkpoint::Publishing()> may_publish_;
  std::deque<MetricsRecord> recent_;  // of a log that may have to write for another one
  int64_t num_unwritten_ = 0;         // of the last ones of them
  Window window_;
  std::map<std::string, data::Loader*> loaders_;  // by split
  parallel::Communicator* ranks_ = nullptr;       // null: one process
  std::vector<RankTimes> times_;                  // since the start, by rank
  double flops_per_image_ = 0;  // of one device where there are several; 0: not asked
  int64_t num_left_out_ = 0;
  int64_t times_written_ = 0;     // of bad samples in bad_samples.json
  double images_per_second_ = 0;  // smoothed, for the progress line
  MachineLoadMeter meter_;
  std::string remark_;  // of the progress line
  bool is_told_of_load_ = false;
};

}  // namespace fovea::train
