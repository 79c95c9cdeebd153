#include "fovea/elastic/control/local_etcd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/elastic/control/etcd_support.h"

namespace fovea::elastic {
namespace {

using ::testing::HasSubstr;

class LocalEtcdTest : public testing::EtcdTest {};

TEST_F(LocalEtcdTest, KeepsItsDataOverAKillAndAStop) {
  client().put("/k", "1");
  const auto lease = client().grant(60);
  const auto url = etcd().url();
  etcd().kill();
  etcd().start();
  EXPECT_EQ(etcd().url(), url);
  EXPECT_EQ(client().get("/k")->value, "1");
  EXPECT_GT(client().keep_alive(lease.id), 0);
  etcd().stop();
  EXPECT_EQ(testing::refusal_of([&] { client().get("/k"); }).kind, EtcdError::Kind::kUnreachable);
  etcd().start();
  EXPECT_EQ(client().get("/k")->value, "1");
}

TEST_F(LocalEtcdTest, EndsWithItsParentHoweverThatEnds) {
  const support::TempDir folder;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const LocalEtcd child({.folder = folder.path()});
    const pid_t process = child.process();
    if (write(pipe_ends[1], &process, sizeof process) < 0) _exit(1);
    pause();
    _exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(read(pipe_ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_EQ(kill(child, 0), 0);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Somebody else's child then: it is gone once its listener is.
  bool is_gone = false;
  for (int i = 0; i < 200 && !is_gone; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::ifstream status("/proc/" + std::to_string(child) + "/stat");
    std::string number, name, state;
    is_gone = !(status >> number >> name >> state) || state == "Z";
  }
  EXPECT_TRUE(is_gone);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(LocalEtcdTest, SaysWhyItDoesNotStart) {
  const support::TempDir folder;
  try {
    const LocalEtcd twice({.folder = folder.path(), .port = etcd().port()});
    ADD_FAILURE() << "two on one port";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("of 127.0.0.1 is in use"));
  }
  try {
    const LocalEtcd refused({.folder = folder.path(), .arguments = {"--data-dir=/proc/none"}});
    ADD_FAILURE() << "a folder that cannot be made";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/proc/none"));
    EXPECT_THAT(error.what(), HasSubstr("etcd.log"));
  }
  EXPECT_THROW(LocalEtcd({.folder = "/proc/none"}), Error);
}

TEST_F(LocalEtcdTest, AMachineWithoutEtcdSaysWhatToInstall) {
  const std::string path = std::getenv("PATH");
  const support::TempDir folder;
  setenv("PATH", folder.path().c_str(), 1);
  EXPECT_FALSE(has_etcd_program());
  try {
    const LocalEtcd none({.folder = folder.path()});
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("etcd-server"));
  }
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace fovea::elastic
