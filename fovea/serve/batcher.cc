#include "fovea/serve/batcher.h"

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::serve {

Batcher::Batcher(const ServeOptions& options, Work compute, Work expire)
    : max_batch_size_(options.max_batch_size),
      preferred_(options.preferred_batch_size),
      delay_(options.max_queue_delay_microseconds),
      compute_(std::move(compute)),
      expire_(std::move(expire)),
      thread_([this] { run(); }) {}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_->notify_all();
  thread_.join();
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
  changed->notify_all();
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
  for (auto& item : queue_) {
    if (is_over(item)) expired.push_back(std::move(item));
  }
  std::erase(queue_, nullptr);
  return expired;
}

// Of a queue from which nothing is to be taken yet.
Clock::time_point Batcher::next_moment() const {
  auto next = queue_.front()->queued + delay_;
  for (const auto& item : queue_) next = std::min(next, item->deadline);
  return next;
}

void Batcher::wait_and_work(std::unique_lock<std::mutex>& lock) {
  const auto now = Clock::now();
  Batch expired = take_expired(now), batch;
  if (!queue_.empty()) {
    const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(items_to_take(now));
    std::move(queue_.begin(), end, std::back_inserter(batch));
    queue_.erase(queue_.begin(), end);
  }
  if (expired.empty() && batch.empty()) {
    changed_->wait_until(lock, next_moment());
    return;
  }
  lock.unlock();
  if (!expired.empty()) expire_(std::move(expired));
  if (!batch.empty()) compute_(std::move(batch));
  lock.lock();
}

void Batcher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_->wait(lock, [&] { return is_over_ || !queue_.empty(); });
    if (queue_.empty()) return;
    wait_and_work(lock);
  }
}

}  // namespace fovea::serve
