#include "fovea/core/stop_signals.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "fovea/core/alternate_stack.h"

namespace fovea {
namespace {

constexpr int kSurvived = 42;

// As in a terminal: in the background, or under nohup, a shell has had some of them ignored.
const bool are_as_in_a_terminal = [] {
  for (const int signal : kStopSignals) std::signal(signal, SIG_DFL);
  return true;
}();

// The status, as waitpid gives it, of a process that runs `body` and, where that returns, exits
// with kSurvived.
int status_of(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(kSurvived);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

bool survives(const std::function<void()>& body) {
  const int status = status_of(body);
  return WIFEXITED(status) && WEXITSTATUS(status) == kSurvived;
}

bool wait_until(const std::function<bool()>& is_so) {
  for (int i = 0; i < 2000 && !is_so(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return is_so();
}

void send(int signal) { kill(getpid(), signal); }

void expect(bool is_so) {
  if (!is_so) _exit(1);
}

TEST(StopSignalsTest, NotesEachSignal) {
  for (const int signal : kStopSignals) {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(signal);
    EXPECT_EQ(StopSignals::received(), signal);
    EXPECT_EQ(StopSignals::count(signal), 1);
  }
}

TEST(StopSignalsTest, NotesEachSignalWhereTheyAreHeld) {
  for (const int signal : kStopSignals) {
    EXPECT_TRUE(survives([&] {
      hold_stop_signals();
      const StopSignals signals;
      send(signal);
      expect(wait_until([&] { return StopSignals::received() == signal; }));
      if (signal == SIGINT) return;
      send(signal);
      expect(wait_until([&] { return StopSignals::count(signal) == 2; }));
    })) << signal;
  }
}

TEST(StopSignalsTest, HeldSignalsWaitForACommandThatIsAboutToNoteThem) {
  EXPECT_TRUE(survives([] {
    block_stop_signals();  // as before main
    send(SIGTERM);
    hold_stop_signals();
    const StopSignals signals;
    expect(wait_until([] { return StopSignals::received() == SIGTERM; }));
  }));
}

TEST(StopSignalsTest, HeldSignalsEndAProcessThatDoesNotNoteThem) {
  for (const int signal : kStopSignals) {
    const int status = status_of([&] {
      hold_stop_signals();
      send(signal);
      sleep(10);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal << ' ' << status;
  }
}

TEST(StopSignalsTest, WhatIsIgnoredAtTheStartIsNoReasonToEnd) {
  EXPECT_TRUE(survives([] {
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGINT, SIG_IGN);
    hold_stop_signals();
    send(SIGINT);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(200));  // longer than the thread's patience
    const StopSignals signals;
    send(SIGHUP);  // nohup
    send(SIGUSR1);
    expect(wait_until([] { return StopSignals::received() == SIGUSR1; }));
    expect(StopSignals::count(SIGHUP) == 0);
  }));
}

TEST(StopSignalsTest, AClosedPipeIsAnErrorOfTheWrite) {
  EXPECT_TRUE(survives([] {
    hold_stop_signals();
    int ends[2];
    expect(pipe(ends) == 0);
    close(ends[0]);
    expect(write(ends[1], "x", 1) == -1 && errno == EPIPE);
  }));
}

TEST(StopSignalsTest, SecondInterruptEndsTheProcess) {
  for (const bool is_held : {false, true}) {
    const int status = status_of([&] {
      if (is_held) hold_stop_signals();
      const StopSignals signals;
      send(SIGINT);
      wait_until([] { return StopSignals::received() == SIGINT; });
      send(SIGINT);
      sleep(10);
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << is_held << ' ' << status;
  }
}

TEST(StopSignalsTest, TermTwiceWaitsForTheStepBoundary) {
  const StopSignals signals;
  std::raise(SIGTERM);
  std::raise(SIGTERM);
  EXPECT_EQ(StopSignals::received(), SIGTERM);
}

TEST(StopSignalsTest, RestoresTheHandlersBefore) {
  struct sigaction before {
  }, after{};
  sigaction(SIGTERM, nullptr, &before);
  { const StopSignals signals; }
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

#ifdef __x86_64__

// Memory whose middle is the stack pointer of a thread, as in oneDNN's matrix products: what lies
// below it belongs to others.
class ForeignStack {
 public:
  // Waits for *flag, which another thread or a handler sets, with the stack pointer in the middle.
  void wait_for(const std::atomic<int>& flag) {
    asm volatile(
        "mov %%rsp, %%rbx\n"
        "mov %[top], %%rsp\n"
        "1: mov (%[flag]), %%eax\n"
        "test %%eax, %%eax\n"
        "jz 1b\n"
        "mov %%rbx, %%rsp\n"
        :
        : [top] "r"(bytes_.data() + bytes_.size() / 2), [flag] "r"(&flag)
        : "rax", "rbx", "memory", "cc");
  }
  bool is_untouched() const {
    return std::all_of(bytes_.begin(), bytes_.end(), [](char byte) { return byte == 7; });
  }

 private:
  std::vector<char> bytes_ = std::vector<char>(1 << 18, 7);
};

TEST(StopSignalsTest, NoSignalTouchesWhatLiesBelowAStackPointer) {
  for (const bool is_held : {false, true}) {
    EXPECT_TRUE(survives([&] {
      if (is_held) hold_stop_signals();
      const StopSignals signals;
      ForeignStack stack;
      std::atomic<int> is_over = 0;
      sigset_t all;
      sigfillset(&all);
      sigset_t before;
      pthread_sigmask(SIG_BLOCK, &all, &before);  // the sender's
      std::thread sender([&] {
        for (int i = 0; i < 20; ++i) {
          send(SIGTERM);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        is_over = 1;
      });
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      stack.wait_for(is_over);
      sender.join();
      expect(wait_until([] { return StopSignals::count(SIGTERM) > 0; }));
      expect(stack.is_untouched());
    })) << is_held;
  }
}

TEST(AlternateStackTest, IsUsedInEachThreadThatAskedForIt) {
  EXPECT_TRUE(survives([] {
    static std::atomic<int> is_handled = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { is_handled = 1; };
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGALRM, &action, nullptr);
    for (int i = 0; i < 2; ++i) {
      std::thread([] {
        ensure_alternate_stack();
        ensure_alternate_stack();
        ForeignStack stack;
        is_handled = 0;
        const pthread_t self = pthread_self();
        std::thread sender([self] {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          pthread_kill(self, SIGALRM);
        });
        stack.wait_for(is_handled);
        sender.join();
        expect(stack.is_untouched());
      }).join();
    }
  }));
}

#endif

}  // namespace
}  // namespace fovea
