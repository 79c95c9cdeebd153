// Requests that wait, and the batches that are made of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "fovea/serve/serve_options.h"

namespace fovea::serve {

using Clock = std::chrono::steady_clock;

// One request in the queue; it is never divided.
struct BatchItem {
  virtual ~BatchItem() = default;
  int64_t size = 1;                                       // inputs
  Clock::time_point queued = {};                          // set by the batcher
  Clock::time_point deadline = Clock::time_point::max();  // when it is not worth a pass any more
};

using Batch = std::vector<std::unique_ptr<BatchItem>>;

// Note [Batches]
// Triton's rules. Requests are taken in order, as many as max_batch_size holds. If the first ones
// add up to a preferred size, those that make the largest such size are computed at once; so is
// what cannot grow any more. Otherwise the batch waits for others until its oldest request has
// waited for max_queue_delay_microseconds. While a batch is computed the queue grows, so that under
// load batches are full without any delay.
//
// On a CPU threads are dealt out with requests: one that waits alone gets all that are free, of
// several each thread gets its share as a batch of its own. So no thread waits for another one at
// the end of a batch, where clients wait for a whole one. With
// preferred sizes batches are one after the other, each with all threads.
class Batcher {
 public:
  using Compute = std::function<void(Batch&& batch, int64_t threads)>;
  using Expire = std::function<void(Batch&& batch)>;

  // threads: what the batches that are computed at a time have together. `compute` is called by
  // threads of the batcher's own, `expire` with items whose deadline has passed in the queue;
  // neither throws.
  Batcher(const ServeOptions& options, int64_t threads, Compute compute, Expire expire);
  ~Batcher();  // computes what is left
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // item.size: at most max_batch_size.
  void push(std::unique_ptr<BatchItem> item);
  // From now on no batch waits for others.
  void hurry();

 private:
  struct Share {
    Batch batch;
    int64_t threads = 0;
  };

  void run();
  void wait_and_work(std::unique_lock<std::mutex>& lock);
  Batch take_expired(Clock::time_point now);
  size_t items_to_take(Clock::time_point now) const;
  Share take_share(Clock::time_point now);
  Clock::time_point next_moment() const;

  const int64_t max_batch_size_;
  const std::vector<int64_t> preferred_;
  const std::chrono::microseconds delay_;
  const int64_t threads_;
  const Compute compute_;
  const Expire expire_;
  std::mutex mutex_;
  const std::shared_ptr<std::condition_variable> changed_ =
      std::make_shared<std::condition_variable>();
  std::deque<std::unique_ptr<BatchItem>> queue_;
  size_t released_ = 0;  // of the queue's first items: they wait for threads alone
  int64_t free_threads_, idle_workers_;
  bool is_hurried_ = false, is_over_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace fovea::serve
