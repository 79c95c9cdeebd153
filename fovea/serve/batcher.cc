#include "fovea/serve/batcher.h"

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::serve {
namespace {

// Batches at a time: with more threads, each has several.
constexpr int64_t kMostWorkers = 8;
// Inputs that read a model's weights together: more save little.
constexpr int64_t kEnough = 4;

}  // namespace

Batcher::Batcher(const ServeOptions& options, int64_t threads, Compute compute, Expire expire)
    : max_batch_size_(options.max_batch_size),
      preferred_(options.preferred_batch_size),
      delay_(options.max_queue_delay_microseconds),
      threads_(threads),
      compute_(std::move(compute)),
      expire_(std::move(expire)),
      free_threads_(threads),
      idle_workers_(preferred_.empty() ? std::clamp<int64_t>(threads, 1, kMostWorkers) : 1) {
  for (int64_t i = idle_workers_; i > 0; --i) workers_.emplace_back([this] { run(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_->notify_all();
  for (auto& worker : workers_) worker.join();
}

void Batcher::push(std::unique_ptr<BatchItem> item) {
  FOVEA_CHECK(item->size >= 1 && item->size <= max_batch_size_, "{} inputs for batches of {}",
              item->size, max_batch_size_);
  std::unique_lock lock(mutex_);
  item->queued = Clock::now();
  queue_.push_back(std::move(item));
  // Woken under the lock, the thread would fall asleep on it at once. Behind the lock the batcher
  // may be gone, for the item may be computed by then.
  const auto changed = changed_;
  lock.unlock();
  changed->notify_one();
}

void Batcher::hurry() {
  {
    const std::lock_guard lock(mutex_);
    is_hurried_ = true;
  }
  changed_->notify_all();
}

// 0: the batch that there is waits.
size_t Batcher::items_to_take(Clock::time_point now) const {
  int64_t total = 0;
  size_t count = 0, preferred = 0;
  for (const auto& item : queue_) {
    if (total + item->size > max_batch_size_) break;
    total += item->size;
    ++count;
    if (std::find(preferred_.begin(), preferred_.end(), total) != preferred_.end())
      preferred = count;
  }
  if (preferred > 0) return preferred;
  const bool cannot_grow = count < queue_.size() || total == max_batch_size_;
  const bool is_due = is_over_ || is_hurried_ || now - queue_.front()->queued >= delay_;
  return cannot_grow || is_due ? count : 0;
}

Batch Batcher::take_expired(Clock::time_point now) {
  Batch expired;
  const auto is_over = [&](const auto& item) { return item->deadline <= now; };
  size_t released = 0;
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (is_over(queue_[i])) {
      expired.push_back(std::move(queue_[i]));
    } else if (i < released_) {
      ++released;
    }
  }
  released_ = released;
  std::erase(queue_, nullptr);
  return expired;
}

// Empty: what there is waits, for others or for threads.
Batcher::Share Batcher::take_share(Clock::time_point now) {
  if (queue_.empty() || free_threads_ == 0) return {};
  if (released_ == 0) released_ = items_to_take(now);
  if (released_ == 0) return {};
  int64_t total = 0;
  for (size_t i = 0; i < released_; ++i) total += queue_[i]->size;
  Share share;
  share.threads = std::max<int64_t>(1, free_threads_ / std::min(total, idle_workers_));
  // Who is at work will want some, too.
  const auto of_shares = [&](int64_t threads) {
    const int64_t shares = threads / share.threads;
    return (total + shares - 1) / shares;
  };
  const int64_t size = std::min(of_shares(free_threads_), std::max(kEnough, of_shares(threads_)));
  for (int64_t left = size; left > 0 && released_ > 0; --released_) {
    left -= queue_.front()->size;
    share.batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  free_threads_ -= share.threads;
  --idle_workers_;
  return share;
}

// Of a queue from which nothing is to be taken yet.
Clock::time_point Batcher::next_moment() const {
  auto next = queue_.front()->queued + delay_;
  for (const auto& item : queue_) next = std::min(next, item->deadline);
  return next;
}

void Batcher::wait_and_work(std::unique_lock<std::mutex>& lock) {
  const auto now = Clock::now();
  Batch expired = take_expired(now);
  Share share = take_share(now);
  if (expired.empty() && share.batch.empty()) {
    changed_->wait_until(lock, next_moment());
    return;
  }
  const bool is_some_left = !queue_.empty() && free_threads_ > 0;
  lock.unlock();
  if (is_some_left) changed_->notify_one();
  if (!expired.empty()) expire_(std::move(expired));
  if (!share.batch.empty()) compute_(std::move(share.batch), share.threads);
  lock.lock();
  free_threads_ += share.threads;
  if (share.threads > 0) ++idle_workers_;
}

void Batcher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_->wait(lock, [&] { return queue_.empty() ? is_over_ : free_threads_ > 0; });
    if (queue_.empty()) break;
    wait_and_work(lock);
  }
  changed_->notify_all();  // the others may have waited for threads
}

}  // namespace fovea::serve
