// Work that is shared out among threads as they come free.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace fovea::kernels::cpu {

// Calls body(begin, end) in libtorch's threads for ranges that together make up [0, count), of
// `most` items at most and of fewer towards the end, but of `least` unless no more are left. A
// thread whose processor is taken away for a while takes fewer of them, where equal shares would
// let the others wait. Which thread takes what is chance, so what comes of an item must not depend
// on it.
template <class Body>
void share_out(int64_t count, int64_t most, const Body& body, int64_t least = 1) {
  const int64_t threads = at::get_num_threads();
  std::atomic<int64_t> taken = 0;
  // Two at least, if one finds nothing: libtorch runs a single one outside of its threads, where a
  // library that body calls would start its own.
  at::parallel_for(0, std::max<int64_t>(2, std::min(threads, count)), 1, [&](int64_t, int64_t) {
    int64_t begin = taken;
    while (begin < count) {
      const int64_t end =
          std::min(count, begin + std::clamp((count - begin) / (2 * threads), least, most));
      if (!taken.compare_exchange_weak(begin, end)) continue;
      body(begin, end);
      begin = taken;
    }
  });
}

}  // namespace fovea::kernels::cpu
