#include "fovea/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/batch/batch_maker.h"

namespace fovea::data {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// Batches are opened in order, each when its slot is free; workers take ranges of rows from the
// newest open batch, so that all of them work on the batch that next() waits for. `mutex` guards
// everything but the rows being filled.
struct Loader::State {
  // A batch in the ring. Its rows are handed to the workers in ranges.
  struct Slot {
    Batch batch;
    int64_t unfinished = 0;             // rows whose range is not finished; 0: the batch is ready
    std::atomic<int64_t> unfilled = 0;  // rows; whoever fills the last one finishes the batch
    std::atomic<bool> has_failed = false;
    std::exception_ptr
        error;  // of the lowest row that failed: the same one for any number of threads
    int64_t error_row = 0;
    std::vector<BadSampleEvent> bad_samples;  // of its rows
  };

  struct Range {
    Slot* slot = nullptr;
    int64_t first = 0;
    int64_t last = 0;
    bool is_timed = false;
  };

  State(BatchMaker batch_maker, const LoaderOptions& options, int64_t size)
      : maker(std::move(batch_maker)),
        bad_samples(options.bad_samples, size),
        slots(static_cast<size_t>(std::max<int64_t>(options.prefetch, 1))) {
    workers.reserve(static_cast<size_t>(std::max<int64_t>(options.threads, 0)));
    thread_count = options.threads;
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      is_stopping = true;
    }
    work_ready.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  Slot& slot_of(int64_t batch_number) {
    return slots[static_cast<size_t>(batch_number) % slots.size()];
  }

  // Ranges small enough that every thread gets several of one batch: the first batch is ready soon,
  // and one slow sample does not hold the others up.
  int64_t range_rows(int64_t batch_rows) const {
    return std::clamp<int64_t>(batch_rows / (4 * std::max<int64_t>(thread_count, 1)), 1, 64);
  }

  void start_workers() {
    while (static_cast<int64_t>(workers.size()) < thread_count)
      workers.emplace_back([this] { work(); });
  }

  // Buffers for the next batch of the ring; needs the lock.
  void open_batch() {
    Slot& slot = slot_of(num_opened);
    if (!spare.empty()) {
      slot.batch = std::move(spare.back());
      spare.pop_back();
    }
    maker.open(open_position, slot.batch);
    open_position = maker.next_position(open_position);
    slot.unfinished = slot.unfilled = slot.batch.size();
    slot.has_failed = false;
    slot.error = nullptr;
    slot.bad_samples.clear();
    next_row = 0;
    ++num_opened;
    if (slot.unfinished == 0) batch_ready.notify_all();  // this share has no row in it
  }

  // Takes back the open batches from `position` on; needs the lock, and no worker that fills them.
  // All rows of those before the newest one are taken.
  void close_batches(int64_t position) {
    while (num_opened > num_consumed && slot_of(num_opened - 1).batch.position >= position) {
      Slot& newest = slot_of(--num_opened);
      open_position = newest.batch.position;
      if (spare.size() < slots.size()) spare.push_back(std::move(newest.batch));
      newest.batch = Batch();
      next_row = num_opened > num_consumed ? slot_of(num_opened - 1).batch.size() : 0;
    }
  }

  // Does `change` while no range is being filled.
  template <class Change>
  void while_idle(const Change& change) {
    std::unique_lock lock(mutex);
    is_seeking = true;
    batch_ready.wait(lock, [&] { return num_active == 0; });
    is_seeking = false;
    work_ready.notify_all();  // they go on once the lock is free
    change();
  }

  // The next range to fill; waits for one. False: the loader is being destroyed.
  bool take_range(std::unique_lock<std::mutex>& lock, Range& range) {
    for (;;) {
      if (is_stopping) return false;
      if (!is_seeking) {
        if (num_opened > num_consumed) {
          Slot& newest = slot_of(num_opened - 1);
          const int64_t rows = newest.batch.size();
          if (next_row < rows) {
            range = {&newest, next_row, std::min(next_row + range_rows(rows), rows), is_timed};
            next_row = range.last;
            ++num_active;
            return true;
          }
        }
        if (num_opened - num_consumed < static_cast<int64_t>(slots.size())) {
          open_batch();
          work_ready.notify_all();
          continue;
        }
      }
      work_ready.wait(lock);
    }
  }

  void work() {
    BatchScratch scratch;
    Range range;
    std::unique_lock lock(mutex);
    while (take_range(lock, range)) {
      lock.unlock();
      StageTimes times;
      const std::exception_ptr error = fill(range, scratch, times);
      lock.lock();
      stage_times.add(times);
      finish(range, error, scratch);
    }
  }

  // Without the lock: the rows of a range belong to the thread that took it.
  std::exception_ptr fill(const Range& range, BatchScratch& scratch, StageTimes& times) const {
    Slot& slot = *range.slot;
    const int64_t rows = range.last - range.first;
    std::exception_ptr error;
    scratch.transforms.set_timer(range.is_timed ? &scratch.timer : nullptr);
    if (range.is_timed) scratch.timer.start();
    try {
      maker.fill(slot.batch, range.first, range.last, scratch);
    } catch (...) {
      error = std::current_exception();
      slot.has_failed = true;
    }
    if (range.is_timed) times = scratch.timer.stop(rows);
    if (slot.unfilled.fetch_sub(rows) > rows || slot.has_failed) return error;
    try {
      maker.finish(slot.batch, scratch);
    } catch (...) {
      error = std::current_exception();
    }
    return error;
  }

  void finish(const Range& range, const std::exception_ptr& error, BatchScratch& scratch) {
    Slot& slot = *range.slot;
    take_bad_samples(slot, scratch);
    if (error && (!slot.error || range.first < slot.error_row)) {
      slot.error = error;
      slot.error_row = range.first;
    }
    slot.unfinished -= range.last - range.first;
    --num_active;
    if (slot.unfinished == 0 || (is_seeking && num_active == 0)) batch_ready.notify_all();
  }

  static void take_bad_samples(Slot& slot, BatchScratch& scratch) {
    auto& found = scratch.bad_samples;
    std::move(found.begin(), found.end(), std::back_inserter(slot.bad_samples));
    found.clear();
  }

  // Notes the bad samples of a batch that is about to be handed out. Which ones a batch with an
  // error has met depends on the threads, so those do not count.
  void count_bad_samples(Slot& slot) {
    if (slot.bad_samples.empty() || slot.error) return;
    const bool is_skipping = bad_samples.options().policy == BadSamplePolicy::kSkip;
    if (is_skipping) skipped_rows += static_cast<int64_t>(slot.bad_samples.size());
    new_events.insert(new_events.end(), slot.bad_samples.begin(), slot.bad_samples.end());
    try {
      bad_samples.add(std::exchange(slot.bad_samples, {}));
    } catch (const DataError&) {
      slot.error = std::current_exception();
    }
  }

  BatchMaker maker;
  BadSampleLog bad_samples;
  std::vector<BadSampleEvent> new_events;  // not taken yet
  int64_t skipped_rows = 0;
  int64_t thread_count = 0;

  std::mutex mutex;
  std::condition_variable work_ready;   // a slot is free, a batch is open, or the end
  std::condition_variable batch_ready;  // a batch is complete, or nothing is being filled any more
  std::vector<Slot> slots;
  std::vector<Batch> spare;
  int64_t num_opened = 0;  // batches opened and handed out since the last seek
  int64_t num_consumed = 0;
  int64_t open_position = 0;  // where the next batch to open starts
  int64_t next_row = 0;       // of the newest open batch: first row that nobody has taken
  int64_t num_active = 0;     // ranges being filled
  bool is_timed = false;
  StageTimes stage_times;
  bool is_seeking = false;
  bool is_stopping = false;

  BatchScratch own_scratch;  // threads = 0
  Clock::duration waited{};
  std::vector<std::thread> workers;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, SampleTransforms transforms,
               const LoaderOptions& options)
    : Loader(std::move(dataset), std::vector{std::move(transforms)}, options) {}

Loader::Loader(std::shared_ptr<const Dataset> dataset, std::vector<SampleTransforms> transforms,
               const LoaderOptions& options) {
  BatchMaker maker(dataset, std::move(transforms), options);
  state_ = std::make_unique<State>(std::move(maker), options, dataset->size());
}

Loader::Loader(Loader&&) noexcept = default;

Loader& Loader::operator=(Loader&&) noexcept = default;

Loader::~Loader() = default;

const SampleOrder& Loader::order() const { return state_->maker.order(); }

void Loader::seek(int64_t position) {
  State& state = *state_;
  state.maker.check_position(position);
  state.while_idle([&] {
    state.num_opened = 0;
    state.num_consumed = 0;
    state.next_row = 0;
    state.open_position = position;
  });
}

void Loader::append(const BatchSizeChange& change) {
  State& state = *state_;
  state.while_idle([&] {
    const int64_t next = state.num_opened > state.num_consumed
                             ? state.slot_of(state.num_consumed).batch.position
                             : state.open_position;
    if (change.position < next) {
      fail<ConfigError>(
          "batch schedule: position {}: the batches before {} are handed out; expected a change "
          "from there on",
          change.position, next);
    }
    state.maker.append(change);
    state.close_batches(change.position);
  });
}

void Loader::set_share(const BatchShare& share) {
  State& state = *state_;
  state.while_idle([&] {
    state.maker.set_share(share);
    state.close_batches(/*position=*/0);
  });
}

Batch Loader::next() {
  State& state = *state_;
  const auto start = Clock::now();
  std::unique_lock lock(state.mutex);
  if (state.thread_count > 0) {
    state.start_workers();
    state.batch_ready.wait(lock, [&] {
      return state.num_opened > state.num_consumed &&
             state.slot_of(state.num_consumed).unfinished == 0;
    });
  } else {
    if (state.num_opened == state.num_consumed) state.open_batch();
    State::Slot& slot = state.slot_of(state.num_consumed);
    state.own_scratch.bad_samples.clear();
    StageTimes times;
    if (!slot.error) {
      slot.error =
          state.fill({&slot, 0, slot.batch.size(), state.is_timed}, state.own_scratch, times);
    }
    state.stage_times.add(times);
    State::take_bad_samples(slot, state.own_scratch);
  }
  state.waited += Clock::now() - start;
  State::Slot& slot = state.slot_of(state.num_consumed);
  state.count_bad_samples(slot);
  if (slot.error) std::rethrow_exception(slot.error);
  Batch batch = std::move(slot.batch);
  slot.batch = Batch();
  ++state.num_consumed;
  lock.unlock();
  state.work_ready.notify_all();
  return batch;
}

void Loader::recycle(Batch&& batch) {
  const std::lock_guard lock(state_->mutex);
  if (state_->spare.size() < state_->slots.size()) state_->spare.push_back(std::move(batch));
}

void Loader::time_stages(bool is_wanted) {
  const std::lock_guard lock(state_->mutex);
  state_->is_timed = is_wanted;
}

StageTimes Loader::take_stage_times() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->stage_times, StageTimes());
}

double Loader::take_wait_seconds() {
  const double seconds = std::chrono::duration<double>(state_->waited).count();
  state_->waited = {};
  return seconds;
}

std::vector<BadSample> Loader::bad_samples() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bad_samples.list();
}

void Loader::restore_bad_samples(std::vector<BadSample> samples) {
  const std::lock_guard lock(state_->mutex);
  state_->bad_samples.restore(std::move(samples));
}

std::vector<BadSampleEvent> Loader::take_bad_sample_events() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->new_events, {});
}

void Loader::add_bad_sample_events(const std::vector<BadSampleEvent>& events) {
  const std::lock_guard lock(state_->mutex);
  state_->bad_samples.add(events);
}

int64_t Loader::num_bad_sample_events() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int64_t>(state_->new_events.size());
}

BadSamplePolicy Loader::bad_sample_policy() const { return state_->bad_samples.options().policy; }

int64_t Loader::take_skipped_rows() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->skipped_rows, 0);
}

}  // namespace fovea::data
