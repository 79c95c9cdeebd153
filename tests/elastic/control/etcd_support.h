// An etcd for a test: its own, on a free port, with its data in a folder of the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "fovea/elastic/control/local_etcd.h"
#include "tests/support/temp_dir.h"

namespace fovea::elastic::testing {

// It is killed with the test, whatever happens: nobody reads its data any more. Without an etcd on
// this machine the test is skipped.
class EtcdTest : public ::testing::Test {
 protected:
  ~EtcdTest() override { end_etcd(); }
  void SetUp() override {
    if (!has_etcd_program()) {
      GTEST_SKIP() << "skipped: no etcd on this machine (Debian package etcd-server)";
    }
    start_etcd();
  }

  // In place of the one of SetUp.
  void start_etcd(std::vector<std::string> arguments = {}, int64_t port = 0) {
    end_etcd();
    folders_.push_back(std::make_unique<support::TempDir>(support::folder_in_memory()));
    // It elects itself after ten beats: a start takes a quarter of a second in place of one.
    arguments.insert(arguments.end(), {"--heartbeat-interval=10", "--election-timeout=100"});
    etcd_ = std::make_unique<LocalEtcd>(LocalEtcdOptions{
        .folder = folders_.back()->path(), .port = port, .arguments = std::move(arguments)});
    client_ = std::make_unique<EtcdClient>(etcd_->place());
  }

  LocalEtcd& etcd() { return *etcd_; }
  EtcdClient& client() { return *client_; }

 private:
  void end_etcd() {
    if (etcd_) etcd_->kill();
    etcd_.reset();
  }

  std::vector<std::unique_ptr<support::TempDir>> folders_;
  std::unique_ptr<LocalEtcd> etcd_;
  std::unique_ptr<EtcdClient> client_;
};

// Stops its process: a signal comes back before all threads stand still, and one may yet answer.
inline void stop_in_its_tracks(const LocalEtcd& etcd) {
  ASSERT_EQ(kill(etcd.process(), SIGSTOP), 0);
  ASSERT_EQ(waitpid(etcd.process(), nullptr, WUNTRACED), etcd.process());
}

// The kind of the error that `call` ends with, and its message.
struct Refusal {
  EtcdError::Kind kind;
  bool is_outcome_known;
  std::string message;
};
template <class Call>
Refusal refusal_of(Call call) {
  try {
    call();
  } catch (const EtcdError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kConfig);
    return {error.kind(), error.is_outcome_known(), error.what()};
  }
  ADD_FAILURE() << "it was not refused";
  return {};
}

}  // namespace fovea::elastic::testing
