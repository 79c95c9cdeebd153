// Work that is shared out among threads as they come free.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "fovea/kernels/cpu/team.h"
#include "fovea/kernels/recorded_pass.h"

namespace fovea::kernels::cpu {

// Note [Sections]
// What one kernel writes the next one reads, mostly the same rows, and what another core has
// written comes from its caches. So [0, count) has as many sections as there are threads, and
// thread i takes the pieces of section i: of the same rows in kernel after kernel, where items are
// counted by rows first. Whoever is done takes what is left of the others' sections. One image of
// ViT-S in bfloat16 took 1.02 to 1.06 times as long without.

// [0, count) in ranges of `most` items at most and of fewer towards the end of a section, but
// multiples of `least`, as sections are: all but the rest. As several threads take them.
class Pieces {
 public:
  Pieces(int64_t count, int64_t least, int64_t most) : least_(least), most_(most) {
    const int64_t units = (count + least - 1) / least;
    num_sections_ =
        std::clamp<int64_t>(units, 1, std::min<int64_t>(at::get_num_threads(), kMostSections));
    const auto begin_of = [&](int64_t i) {
      return std::min(count, units * i / num_sections_ * least);
    };
    for (int64_t i = 0; i < num_sections_; ++i) {
      sections_[i].taken.store(begin_of(i), std::memory_order_relaxed);
      sections_[i].end = begin_of(i + 1);
    }
  }

  // Calls body(begin, end) for one after the other until none are left. thread: its number among
  // those that take pieces.
  template <class Body>
  void take(int64_t thread, const Body& body) {
    take_from(sections_[thread % num_sections_], /*takers=*/1, body);
    for (int64_t i = 1; i < num_sections_; ++i) {
      take_from(sections_[(thread + i) % num_sections_], num_sections_, body);
    }
  }

 private:
  struct alignas(64) Section {
    std::atomic<int64_t> taken;
    int64_t end;
  };

  // takers: how many threads there may be for what is left.
  template <class Body>
  void take_from(Section& section, int64_t takers, const Body& body) {
    int64_t begin = section.taken;
    while (begin < section.end) {
      const int64_t left = section.end - begin;
      const int64_t wanted = std::clamp(left / (2 * takers), least_, most_);
      const int64_t end = begin + std::min(left, wanted - wanted % least_);
      if (!section.taken.compare_exchange_weak(begin, end)) continue;
      body(begin, end);
      begin = section.taken;
    }
  }

  static constexpr int64_t kMostSections = 64;
  int64_t least_, most_, num_sections_;
  std::array<Section, kMostSections> sections_;
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
  at::parallel_for(0, threads, 1, [&](int64_t thread, int64_t) { pieces.take(thread, body); });
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
  run_in_team(threads - 1, [&](int64_t thread) { pieces.take(thread, body); });
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
