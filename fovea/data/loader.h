// Batches from a data set, prepared by threads. Output depends on (seed, position) only: never on
// the number of threads, the queue depth or the time at which anything runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/data/batch.h"
#include "fovea/data/loader_options.h"
#include "fovea/data/stage_timer.h"

namespace fovea::data {

class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, SampleTransforms transforms,
         const LoaderOptions& options);
  // One pipeline for each set of options.mix; batches hold samples of one set.
  Loader(std::shared_ptr<const Dataset> dataset, std::vector<SampleTransforms> transforms,
         const LoaderOptions& options);
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  ~Loader();

  // Which samples come when. Not to be asked beside an `append` in another thread.
  const SampleOrder& order() const;
  // Samples handed out in one epoch (with drop_last: a multiple of the global batch size), and
  // batches; where these change their size, of the first one.
  int64_t samples_per_epoch() const { return order().samples_per_epoch(); }
  int64_t batches_per_epoch() const { return order().batches_per_epoch(); }

  // The position at which batch number `batch` starts, counted from 0 over all epochs.
  int64_t position_of(int64_t batch) const { return order().position_of(batch); }

  // Batches have another size from a position on that is not handed out yet (see
  // SampleOrder::append). What was prepared with the old one is made again, so that the output is
  // that of a loader which had it in its options from the start. Called by who calls next().
  // Throws ConfigError also where the position is handed out; nothing has changed then.
  void append(const BatchSizeChange& change);
  // From the next batch on, this process has other rows of each. What was prepared is made again,
  // so that the output is that of a loader which had this share in its options. Called by who calls
  // next(). Throws ConfigError where rank groups or mixing do not allow it; nothing has changed
  // then.
  void set_share(const BatchShare& share);

  // Goes on from `position`, the global number of samples consumed since the start of training: its
  // state is this one integer. Must be a position at which a batch starts.
  void seek(int64_t position);

  // The next batch, running on into the following epochs without end. Rethrows a worker's
  // DataError; throws one where the bad samples are more than options.bad_samples allows.
  Batch next();
  // Hands the buffers of a used batch back, so that steady state allocates nothing.
  void recycle(Batch&& batch);

  // Seconds next() has spent waiting for workers since the last call of this.
  double take_wait_seconds();

  // Samples of the batches handed out so far that could not be read; restore: those of an earlier
  // process of the same run, so that both have one budget.
  std::vector<BadSample> bad_samples() const;
  void restore_bad_samples(std::vector<BadSample> samples);
  BadSamplePolicy bad_sample_policy() const;
  // What befell this share since the last call of this, and what befell others: all of them are one
  // list with one budget. Throws DataError where they are more than it allows.
  std::vector<BadSampleEvent> take_bad_sample_events();
  void add_bad_sample_events(const std::vector<BadSampleEvent>& events);
  int64_t num_bad_sample_events() const;
  // Rows left out for a bad sample since the last call of this.
  int64_t take_skipped_rows();
  // From now on, or no longer, the time of each stage is counted.
  void time_stages(bool is_wanted);
  // What was counted since the last call of this, of all threads.
  StageTimes take_stage_times();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::data
