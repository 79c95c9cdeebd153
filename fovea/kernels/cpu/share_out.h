// Work that is shared out among threads as they come free.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "fovea/kernels/cpu/team.h"
#include "fovea/kernels/recorded_pass.h"

namespace fovea::kernels::cpu {

// [0, count) in ranges of `most` items at most and of fewer towards the end, but of `least` unless
// no more are left, as several threads take them.
class Pieces {
 public:
  Pieces(int64_t count, int64_t least, int64_t most)
      : count_(count), least_(least), most_(most), threads_(at::get_num_threads()) {}

  // Calls body(begin, end) for one after the other until none are left.
  template <class Body>
  void take(const Body& body) {
    int64_t begin = taken_;
    while (begin < count_) {
      const int64_t end =
          std::min(count_, begin + std::clamp((count_ - begin) / (2 * threads_), least_, most_));
      if (!taken_.compare_exchange_weak(begin, end)) continue;
      body(begin, end);
      begin = taken_;
    }
  }

 private:
  std::atomic<int64_t> taken_ = 0;
  int64_t count_, least_, most_, threads_;
};

// A kernel that does not go through run_kernel would be left out of a recorded pass.
inline void refuse_recording() {
  if (auto* recorder = pass_recorder()) recorder->refuse("it has work of threads of its own");
}

// The same in libtorch's threads, for a body that calls libtorch: which runs by itself in them.
template <class Body>
void share_out_in_libtorch(int64_t count, int64_t most, const Body& body, int64_t least = 1) {
  refuse_recording();
  Pieces pieces(count, least, most);
  // Two at least, if one finds nothing: libtorch runs a single one outside of its threads, where a
  // library that body calls would start its own.
  const int64_t threads = std::max<int64_t>(2, std::min<int64_t>(at::get_num_threads(), count));
  at::parallel_for(0, threads, 1, [&](int64_t, int64_t) { pieces.take(body); });
}

// Calls body(begin, end) in several threads for ranges that together make up [0, count), see
// Pieces. A thread whose processor is taken away for a while takes fewer of them, where equal
// shares would let the others wait. Which thread takes what is chance, so what comes of an item
// must not depend on it; body asks libtorch for nothing that takes several threads. See Note
// [Teams].
template <class Body>
void share_out(int64_t count, int64_t most, const Body& body, int64_t least = 1) {
  if (!has_teams()) return share_out_in_libtorch(count, most, body, least);
  refuse_recording();
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), (count + least - 1) / least);
  if (threads <= 1) return body(0, count);
  Pieces pieces(count, least, most);
  run_in_team(threads - 1, [&] { pieces.take(body); });
}

// Likewise for [0, count) in ranges of `grain` items at least, or all of it.
template <class Body>
void for_ranges(int64_t count, int64_t grain, const Body& body) {
  refuse_recording();
  if (!has_teams()) return at::parallel_for(0, count, grain, body);
  constexpr int64_t kPiecesOfThread = 4;
  const int64_t even = count / (kPiecesOfThread * at::get_num_threads());
  share_out(count, std::max(even, grain), body, grain);
}

// The same as a kernel: body captures as PassRecorder::run says.
template <class Body>
void run_ranges(int64_t count, int64_t grain, const Body& body) {
  run_kernel([=] { for_ranges(count, grain, body); });
}

}  // namespace fovea::kernels::cpu
