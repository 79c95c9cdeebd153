#include "fovea/serve/worker_threads.h"

#include <algorithm>
#include <utility>

namespace fovea::serve {

WorkerThreads::WorkerThreads(int64_t count) {
  if (count <= 0) count = std::max<int64_t>(std::thread::hardware_concurrency(), 1);
  for (int64_t i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
}

WorkerThreads::~WorkerThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void WorkerThreads::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void WorkerThreads::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over_ || !work_.empty(); });
    if (work_.empty()) return;
    auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds may take its time to go
    lock.lock();
  }
}

}  // namespace fovea::serve
