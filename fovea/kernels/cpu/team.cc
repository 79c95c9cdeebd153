#include "fovea/kernels/cpu/team.h"

#include <ATen/Parallel.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "fovea/core/awaited_word.h"
#include "fovea/kernels/cpu/helper_place.h"

namespace fovea::kernels::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Of who waits, before it sleeps.
constexpr auto kSpin = std::chrono::microseconds(50);
// Of who waits for a helper: to see whether it gets on; from one such look to the next; and for one
// that was fetched, which then has the processor.
constexpr auto kLook = std::chrono::microseconds(20);
constexpr auto kBetweenLooks = std::chrono::microseconds(500);
constexpr auto kTurn = std::chrono::milliseconds(4);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Until is_so(), or for `most` -> whether it is so.
template <class IsSo>
bool spin_until(const IsSo& is_so, std::chrono::nanoseconds most) {
  constexpr int kLooks = 16;  // between two looks at the clock
  if (is_so()) return true;
  const auto end = Clock::now() + most;
  do {
    for (int i = 0; i < kLooks; ++i) {
      pause();
      if (is_so()) return true;
    }
  } while (Clock::now() < end);
  return false;
}

// Where a thread and its helpers meet. The helpers hold it, too, and outlive their thread by a
// moment.
class Table {
 public:
  // The thread's: a place for another helper, which stays where it is.
  HelperPlace& add_place() { return places_.emplace_back(); }

  // The thread's, with helpers at the table.
  void work_with(uint32_t helpers, c10::function_ref<void(int64_t)> work) {
    work_ = &work;
    cpu_.store(sched_getcpu(), std::memory_order_relaxed);
    set_state(helpers * kPlace);
    do_work(work, 0);
    state_.value.fetch_and(kInside);  // no place is left
    wait_for_helpers();
    if (!has_failed_.load(std::memory_order_relaxed)) return;
    has_failed_ = false;
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  void end() {
    is_ending_ = true;
    set_state(kEnd);
  }

  // A helper's, which has this number.
  void help(HelperPlace& place, int64_t number) {
    place.begin();
    for (;;) {
      spin_until([this] { return state_.value.load(std::memory_order_relaxed) >= kPlace; }, kSpin);
      auto state = state_.value.load();
      if (is_ending_) return;
      if (state < kPlace) {
        state_.sleep_while(state);
      } else if (state_.value.compare_exchange_weak(state, state - kPlace + 1)) {
        place.arrive(cpu_.load(std::memory_order_relaxed));
        do_work(*work_, number);
        leave(place);
      }
    }
  }

 private:
  // Of state_: how many helpers are at work, below kPlace, and how many places are left.
  static constexpr uint32_t kPlace = 1 << 12, kInside = kPlace - 1, kEnd = ~kInside;

  void set_state(uint32_t state) {
    state_.value.store(state);
    state_.wake_all();
  }

  void do_work(c10::function_ref<void(int64_t)> work, int64_t number) {
    try {
      work(number);
    } catch (...) {
      if (!has_failed_.exchange(true)) failure_ = std::current_exception();
    }
  }

  void leave(HelperPlace& place) {
    place.leave();
    if (state_.value.fetch_sub(1) != 1) return;  // the thread is still at work, or others are
    left_.value.fetch_add(1);
    left_.wake_all();
  }

  void wait_for_helpers() {
    const auto are_gone = [this] { return state_.value.load() == 0; };
    if (spin_until(are_gone, kSpin)) return;
    bool has_fetched = false;
    do {
      for (auto& place : places_) place.look();
      if (spin_until(are_gone, kLook)) break;
      for (auto& place : places_) has_fetched |= place.fetch_if_stuck();
      const auto left = left_.value.load();  // before the look at who is gone
      if (!are_gone()) left_.sleep_while(left, has_fetched ? kTurn : kBetweenLooks);
    } while (!are_gone());
    for (auto& place : places_) place.let_go();
  }

  alignas(64) AwaitedWord state_;
  alignas(64) AwaitedWord left_;  // times that the last one has left
  std::atomic<int> cpu_ = -1;     // that the thread was on as it began
  std::atomic<bool> is_ending_ = false, has_failed_ = false;
  const c10::function_ref<void(int64_t)>* work_ = nullptr;
  std::exception_ptr failure_;
  std::deque<HelperPlace> places_;
};

thread_local bool is_at_work = false;

class AtWork {
 public:
  AtWork() { is_at_work = true; }
  ~AtWork() { is_at_work = false; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};

// Forks so far, in the child: what threads there were are not there any more.
std::atomic<int> num_forks = 0;

class Team {
 public:
  Team() {
    static const int is_told =
        pthread_atfork(nullptr, nullptr, [] { num_forks.fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(is_told);
  }
  ~Team() { table_->end(); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void run(uint32_t helpers, c10::function_ref<void(int64_t)> work) {
    if (const int forks = num_forks.load(std::memory_order_relaxed); forks != forks_) {
      forks_ = forks;
      helpers_ = 0;
      table_ = std::make_shared<Table>();
    }
    while (helpers_ < helpers) add_helper(++helpers_);
    table_->work_with(helpers, work);
  }

 private:
  // Signals are for the threads that the program has made.
  void add_helper(int64_t number) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread helper([table = table_, &place = table_->add_place(), number] {
      pthread_setname_np(pthread_self(), "fovea-helper");
      const AtWork here;
      table->help(place, number);
    });
    helper.detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  std::shared_ptr<Table> table_ = std::make_shared<Table>();
  uint32_t helpers_ = 0;
  int forks_ = num_forks;
};

}  // namespace

bool has_teams() {
  static const bool has = [] {
    constexpr long kMostSpins = 2000;  // some tens of microseconds
    const char* policy = std::getenv("OMP_WAIT_POLICY");
    if (policy != nullptr && *policy != '\0') {
      return std::string_view(policy) == "passive" || std::string_view(policy) == "PASSIVE";
    }
    const char* spins = std::getenv("GOMP_SPINCOUNT");
    if (spins == nullptr || *spins == '\0') return false;
    char* end = nullptr;
    const long count = std::strtol(spins, &end, 10);
    return *end == '\0' && 0 <= count && count <= kMostSpins;
  }();
  return has;
}

void run_in_team(int64_t helpers, c10::function_ref<void(int64_t)> work) {
  if (helpers == 0 || is_at_work || at::in_parallel_region()) return work(0);
  thread_local Team team;
  const AtWork here;
  team.run(static_cast<uint32_t>(std::min<int64_t>(helpers, 1000)), work);
}

}  // namespace fovea::kernels::cpu
