#include "fovea/core/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fovea {

void parallel_for(int64_t count, int64_t threads, const std::function<void(int64_t)>& work) {
  if (threads <= 0) threads = std::max<int64_t>(std::thread::hardware_concurrency(), 1);
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> first_failed = count;
  std::mutex mutex;
  std::exception_ptr failure;
  // Pieces are begun in order, so all before a failed one are done or fail themselves.
  const auto run = [&] {
    for (int64_t i; (i = next++) < first_failed;) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < first_failed) {
          first_failed = i;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> others;
  for (int64_t t = 1; t < std::min(threads, count); ++t) others.emplace_back(run);
  run();
  for (auto& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fovea
