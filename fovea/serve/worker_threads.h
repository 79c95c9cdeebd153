// Threads that work through what is given to them, in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fovea::serve {

// Thread-safe.
class WorkerThreads {
 public:
  explicit WorkerThreads(int64_t count);  // 0: one for each core
  ~WorkerThreads();                       // finishes what was given
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // `work` does not throw.
  void post(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fovea::serve
