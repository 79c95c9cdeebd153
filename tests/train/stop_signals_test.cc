#include "fovea/train/stop_signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fovea::train {
namespace {

TEST(StopSignalsTest, NotesEachOfTheThreeSignals) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(signal);
    EXPECT_EQ(StopSignals::received(), signal);
  }
}

TEST(StopSignalsTest, SecondInterruptEndsTheProcess) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const StopSignals signals;
    std::raise(SIGINT);
    std::raise(SIGINT);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
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

}  // namespace
}  // namespace fovea::train
