// A thread beside each rank that tells the others it is alive, and hears of what befell them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/parallel/key_store.h"

namespace fovea::parallel {

struct RankFailure {
  int64_t rank = 0;
  int64_t step = -1;  // -1: before the first one
  ExitCode code = ExitCode::kUsage;
  std::string message;

  std::string text() const;
};

// Note [Heartbeats]
// Every beat a rank writes a counter, its step and what it does into the store, over a connection
// of its own. A rank that waits for others looks at their counters: one that stands still belongs
// to a process that was stopped, killed or cut off. Counters are compared with themselves, so
// clocks of machines may differ. A process whose main thread alone hangs goes on beating; the
// longest wait of a collective ends that, and the beats say what each rank was doing.
class Watch {
 public:
  // num_ranks of the world; `stale`: silence after which a rank counts as gone.
  Watch(std::unique_ptr<KeyStore> store, int64_t rank, int64_t num_ranks,
        std::chrono::milliseconds stale);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  int64_t rank() const { return rank_; }
  void at_step(int64_t step);
  int64_t step() const;
  // What this rank waits for; shown to the others.
  void at_operation(const std::string& operation);
  // Adds to the seconds that this rank has waited in collectives.
  void add_wait(double seconds);
  // Those since the last call.
  double take_wait_seconds();

  // From now on, or no longer, the other ranks' beats are read.
  void look_at_others(bool is_wanted);
  // The first failure that a rank told of, if any. A store that does not answer is one of rank 0.
  std::optional<RankFailure> failure() const;
  // The ranks not heard of for `silence`, in words with their steps; empty: all were heard of.
  std::string silent_ranks(std::chrono::milliseconds silence) const;
  // What each rank was last known to do, in words; at most the first ones of many.
  std::string whereabouts() const;
  std::chrono::milliseconds stale() const { return stale_; }

  // Tells the others. -> false where another rank's failure came first. Waits some seconds at most.
  bool post(const std::string& message, ExitCode code);

 private:
  using Clock = std::chrono::steady_clock;
  struct Beat {
    std::string text;  // "<count> <step> <operation>"
    Clock::time_point changed;
  };

  void run();
  void beat();
  void read_others();

  std::unique_ptr<KeyStore> store_;
  int64_t rank_;
  std::chrono::milliseconds stale_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, posted_;
  int64_t count_ = 0, step_ = -1;
  std::string operation_ = "starting";
  double wait_seconds_ = 0;
  bool is_looking_ = false, is_stopping_ = false, is_lost_ = false;
  Clock::time_point last_round_ = Clock::now();
  std::vector<Beat> beats_;
  std::optional<RankFailure> failure_, to_post_;
  std::thread thread_;
};

}  // namespace fovea::parallel
