#include "fovea/core/stop_signals.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>

#include "fovea/core/alternate_stack.h"

namespace fovea {
namespace {

constexpr int kInterrupted = 130;  // 128 + SIGINT, as shells report it
// The first milliseconds of a command, in which it has not yet said that it notes signals.
constexpr std::chrono::milliseconds kPatience{100};

std::atomic<int> last_signal = 0;
std::array<std::atomic<int64_t>, kStopSignals.size()> counts = {};
std::atomic<int> num_alive = 0;
bool is_held = false;  // set before there is a second thread

size_t index_of(int signal) {
  return static_cast<size_t>(std::find(kStopSignals.begin(), kStopSignals.end(), signal) -
                             kStopSignals.begin());
}

// Only what is safe in a handler: lock-free numbers, and _exit.
void note(int signal) {
  const int64_t count = ++counts[index_of(signal)];
  if (signal == SIGINT && count > 1) _exit(kInterrupted);
  last_signal = signal;
}

bool somebody_notes() {
  for (auto waited = kPatience * 0; waited < kPatience; waited += std::chrono::milliseconds(5)) {
    if (num_alive > 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return num_alive > 0;
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// The default action needs no stack: the kernel ends the process.
void end_by(int signal) {
  if (is_ignored(signal)) return;  // as of a script's jobs in the background
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  kill(getpid(), signal);
}

void wait_for_signals(sigset_t held) {
  for (;;) {
    int signal = 0;
    if (sigwait(&held, &signal) != 0) continue;
    if (somebody_notes()) {
      note(signal);
    } else {
      end_by(signal);
    }
  }
}

// nohup's way to say that the end of a terminal is none of the program's.
bool is_left_alone(int signal) { return signal == SIGHUP && is_ignored(signal); }

}  // namespace

sigset_t stop_signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) {
    if (!is_left_alone(signal)) sigaddset(&set, signal);
  }
  return set;
}

void block_stop_signals() {
  const sigset_t set = stop_signal_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void hold_stop_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  block_stop_signals();
  const sigset_t set = stop_signal_set();
  try {
    std::thread(wait_for_signals, set).detach();
    is_held = true;
  } catch (const std::system_error&) {  // no memory for its stack: handlers take its place
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
}

StopSignals::StopSignals() {
  if (num_alive++ == 0) {
    last_signal = 0;
    for (auto& count : counts) count = 0;
  }
  if (is_held) return;
  ensure_alternate_stack();
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    const bool is_noted = !is_left_alone(kStopSignals[i]);
    sigaction(kStopSignals[i], is_noted ? &action : nullptr, &previous_[i]);
  }
}

StopSignals::~StopSignals() {
  num_alive -= 1;
  if (is_held) return;
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], &previous_[i], nullptr);
  }
}

// In static memory and never destroyed: a pointer that nobody reads need not be kept, and what it
// points to is then a leak.
void note_stop_signals_for_good() {
  alignas(StopSignals) static std::array<std::byte, sizeof(StopSignals)> memory;
  [[maybe_unused]] static const auto& kept = *new (memory.data()) StopSignals;
}

int StopSignals::received() { return last_signal; }

int64_t StopSignals::count(int signal) { return counts[index_of(signal)]; }

}  // namespace fovea
