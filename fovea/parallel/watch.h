// A thread beside each rank that tells the others it is alive, and hears of what befell them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
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
  int64_t rank = -1;  // -1: of no rank, or nobody knows of which
  int64_t step = -1;  // -1: before the first one
  ExitCode code = ExitCode::kUsage;
  std::string message;

  std::string text() const;
};

// What a failure and a beat are in the store. Both are cut to a length there, and what is read is
// taken for that of a stranger: of a failure that is none, or whose code is not one with which a
// run fails, comes one with kHang; steering characters are escaped.
std::string to_text(const RankFailure& failure);
RankFailure failure_from(const std::string& text, int64_t num_ranks);

struct RankBeat {
  int64_t count = 0;
  int64_t step = -1;
  std::string operation;

  std::string place() const;  // "at step 3", "before its first step"
};
std::string to_text(const RankBeat& beat);
std::optional<RankBeat> beat_from(const std::string& text);
std::string beat_key(int64_t rank);

struct WatchPatience {
  std::chrono::milliseconds stale{0};      // of silence, after which a rank counts as gone
  std::chrono::milliseconds reason{4000};  // for the reason of a broken connection to be told
};

// Note [Heartbeats]
// Every beat a rank writes a counter, its step and what it does into the store, over a connection
// of its own. A rank that waits for others looks at their counters: one that stands still belongs
// to a process that was stopped, killed or cut off. Counters are compared with themselves, so
// clocks of machines may differ. A process whose main thread alone hangs goes on beating; the
// longest wait of a collective ends that, and the beats say what each rank was doing. A rank whose
// store is gone, or has not answered in time, is alone: nobody would tell it to end. It is left
// some seconds to find that out in a collective, and is ended then, whatever it does.
class Watch {
 public:
  // num_ranks of the world. How long the store may take for an answer says the one who clones it.
  // interrupt: after it there is nobody to wait for; may be null.
  Watch(std::unique_ptr<KeyStore> store, int64_t rank, int64_t num_ranks, WatchPatience patience,
        std::shared_ptr<const Interrupt> interrupt = nullptr);
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

  // The other ranks' beats are read while more asked for it than took it back.
  void look_at_others(bool is_wanted);
  // Whether somebody does: a thread of this rank waits for others.
  bool is_looking() const;
  // The first failure that a rank told of, if any. A store that does not answer is one of no rank,
  // and so is an interrupt.
  std::optional<RankFailure> failure() const;
  // The ranks not heard of for `silence`, in words with their steps; empty: all were heard of.
  std::string silent_ranks(std::chrono::milliseconds silence) const;
  // What each rank was last known to do, in words; at most the first ones of many.
  std::string whereabouts() const;
  const WatchPatience& patience() const { return patience_; }
  // What this rank itself found to have failed on a device, for the host to hear of: the first one.
  void add_fault(std::exception_ptr fault);
  // Throws it, if there was any.
  void check_fault() const;
  // Called once, from the thread of the watch, when this rank is alone and has not ended `patience`
  // later; empty: nobody is told.
  void on_alone(std::function<void(const std::string& why)> end,
                std::chrono::milliseconds patience = std::chrono::milliseconds(6000));
  // Tells the others `why`, and then calls what on_alone was given, if anything.
  void end_alone(const std::string& why);

  // Tells the others. -> false where another rank's failure came first. Waits so long at most.
  bool post(const std::string& message, ExitCode code,
            std::chrono::milliseconds patience = std::chrono::milliseconds(3000));

 private:
  using Clock = std::chrono::steady_clock;
  struct Beat {
    std::string text;  // "<count> <step> <operation>"
    Clock::time_point changed;
  };

  void run();
  void stay_alone();
  void beat();
  void read_others();

  std::unique_ptr<KeyStore> store_;
  int64_t rank_;
  WatchPatience patience_;
  std::shared_ptr<const Interrupt> interrupt_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, posted_;
  int64_t count_ = 0, step_ = -1;
  std::string operation_ = "starting";
  double wait_seconds_ = 0;
  int num_looking_ = 0;
  bool is_stopping_ = false, is_lost_ = false;
  Clock::time_point last_round_ = Clock::now();
  std::vector<Beat> beats_;
  std::optional<RankFailure> failure_, to_post_;
  std::exception_ptr fault_;
  std::string loss_;  // why the store is gone
  std::function<void(const std::string&)> end_alone_;
  std::chrono::milliseconds alone_patience_{0};
  std::thread thread_;
};

}  // namespace fovea::parallel
