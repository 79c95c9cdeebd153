// A loader that Python may hold: its batches outlive it, any thread may take them or let them go,
// and a forked child neither waits for threads that it has not nor ends them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fovea/data/batch.h"
#include "fovea/data/batch/batch_arrays.h"
#include "fovea/data/loader.h"
#include "fovea/data/loader_setup.h"

namespace fovea::python {

class BatchLoader;

// A batch whose memory goes back to its loader with the last reference to it.
class HeldBatch {
 public:
  HeldBatch(data::Batch batch, std::shared_ptr<BatchLoader> loader);
  ~HeldBatch();
  HeldBatch(const HeldBatch&) = delete;
  HeldBatch& operator=(const HeldBatch&) = delete;

  const data::Batch& batch() const { return batch_; }
  const std::vector<data::BatchArray>& arrays() const { return arrays_; }

 private:
  data::Batch batch_;
  std::vector<data::BatchArray> arrays_;  // views of it
  std::shared_ptr<BatchLoader> loader_;
};

// None of its functions wants the GIL; those that may wait are to be called without it.
class BatchLoader : public std::enable_shared_from_this<BatchLoader> {
 public:
  explicit BatchLoader(data::LoaderSetup setup);
  ~BatchLoader();

  // Waits. Throws DataError; Error where the loader is closed, or was used by the process that this
  // one was forked from.
  std::unique_ptr<HeldBatch> next();
  // Waits. position: samples before the next batch, over all epochs and processes.
  void seek(int64_t position);
  // Waits for the worker threads. Batches that are out stay as they are.
  void close();
  bool is_closed() const { return is_closed_; }
  void check_open() const;
  void recycle(data::Batch&& batch);

  // Of the next batch.
  int64_t position() const { return position_; }
  // Where epoch `epoch` starts, and how many batches it has.
  int64_t start_of_epoch(int64_t epoch) const;
  int64_t batches_of_epoch(int64_t epoch) const;
  int64_t epoch_at(int64_t position) const { return order_.batch_at(position).epoch; }
  int64_t batches_before(int64_t position) const { return order_.batches_before(position); }

  const data::LoaderSetup& setup() const { return setup_; }
  std::vector<data::BadSample> bad_samples() const;
  void restore_bad_samples(std::vector<data::BadSample> samples);

 private:
  data::Loader& open_loader() const;
  bool is_of_parent() const;
  void check_process() const;
  int64_t first_batch_of(int64_t epoch) const;

  data::LoaderSetup setup_;
  std::unique_ptr<data::Loader> loader_;
  data::SampleOrder order_;  // that of the loader, which another thread may be using
  std::atomic<int64_t> position_ = 0;
  std::atomic<bool> is_closed_ = false;
  std::atomic<pid_t> user_ = 0;       // the process whose threads fill batches; 0: none yet
  mutable std::mutex next_mutex_;     // held while a batch is waited for
  mutable std::mutex recycle_mutex_;  // guards loader_ against close(), never held for long
};

}  // namespace fovea::python
