#include "fovea/parallel/local_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/parallel/listening_sockets.h"
#include "tests/support/temp_dir.h"

namespace fovea::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LocalRun run_script(const std::string& script, LocalLaunchOptions options) {
  return run_local_ranks({"/bin/sh", "-c", script}, options);
}

TEST(LocalLaunchTest, RanksKnowWhoTheyAre) {
  const support::TempDir folder;
  const auto run = run_script(
      "echo $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR > " + folder.path() + "/$RANK",
      {.processes = 3});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.message, "");
  for (int rank = 0; rank < 3; ++rank) {
    std::string line;
    std::getline(std::ifstream(folder.file(std::to_string(rank))), line);
    EXPECT_EQ(line, "3 " + std::to_string(rank) + " 3 127.0.0.1");
  }
}

// What lets a rank in where the ranks meet is drawn for each run, and that place is on loopback.
TEST(LocalLaunchTest, RanksMeetOutOfReachOfTheNetwork) {
  const support::TempDir folder;
  setenv("FOVEA_SECRET_FILE", "/of/an/outer/run", 1);
  std::string secrets[2];
  for (auto& secret : secrets) {
    std::vector<std::string> addresses;
    const auto run = run_script(
        "echo \"$FOVEA_SECRET$FOVEA_SECRET_FILE\" > " + folder.path() + "/$RANK",
        {.processes = 2,
         .on_started = [&](const auto&) { addresses = testing::listening_addresses(); }});
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_EQ(addresses, std::vector<std::string>{"127.0.0.1"});
    std::string of_other;
    std::getline(std::ifstream(folder.file("0")), secret);
    std::getline(std::ifstream(folder.file("1")), of_other);
    EXPECT_EQ(secret.size(), 64u);
    EXPECT_EQ(secret, of_other);
  }
  unsetenv("FOVEA_SECRET_FILE");
  EXPECT_NE(secrets[0], secrets[1]);
}

// Nobody is left to end them.
TEST(LocalLaunchTest, RanksEndWithALauncherThatIsKilled) {
  const support::TempDir folder;
  const pid_t launcher = fork();
  if (launcher == 0) {
    run_script("echo $$ > " + folder.path() + "/new; mv " + folder.path() + "/new " +
                   folder.path() + "/$RANK; exec sleep 100",
               {.processes = 1});
    _exit(0);
  }
  pid_t rank = 0;
  while (!(std::ifstream(folder.file("0")) >> rank)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  const auto is_alive = [&] {  // a process that nobody waits for stays in the table for a while
    std::ifstream file("/proc/" + std::to_string(rank) + "/stat");
    std::string state;
    file >> state >> state >> state;
    return file.good() && state != "Z";
  };
  for (int i = 0; i < 2000 && is_alive(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(is_alive());
}

TEST(LocalLaunchTest, TheFirstFailureDecidesAndEndsTheOthers) {
  const auto run =
      run_script("[ $RANK = 1 ] && exit 4; exec sleep 100", {.processes = 3, .grace = 0.1});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_EQ(run.message, "");  // the rank has told itself
}

TEST(LocalLaunchTest, ARankThatIsKilledIsNamed) {
  const auto run =
      run_script("[ $RANK = 2 ] && kill -9 $$; exec sleep 100", {.processes = 3, .grace = 0.1});
  EXPECT_EQ(run.exit_code, 7);
  EXPECT_THAT(run.message, AllOf(HasSubstr("rank 2 was killed by signal 9"),
                                 HasSubstr("before its first step"), HasSubstr("checkpoint")));
}

TEST(LocalLaunchTest, StoppedIsNoFailure) {
  EXPECT_EQ(run_script("exit 75", {.processes = 2}).exit_code, 75);
  EXPECT_EQ(run_script("[ $RANK = 0 ] && exit 75; exit 6", {.processes = 2}).exit_code, 6);
}

TEST(LocalLaunchTest, SignalsGoOnToAllRanks) {
  const support::TempDir folder;
  const auto ready = [&](int rank) {
    return std::ifstream(folder.file("ready" + std::to_string(rank))).good();
  };
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);  // in the sender, which inherits it
  std::thread sender([&] {
    while (!ready(0) || !ready(1)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(getpid(), SIGTERM);
  });
  pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  const auto run = run_script(
      "trap 'exit 75' TERM; : > " + folder.path() + "/ready$RANK; while :; do sleep 0.02; done",
      {.processes = 2});
  sender.join();
  EXPECT_EQ(run.exit_code, 75);
}

}  // namespace
}  // namespace fovea::parallel
