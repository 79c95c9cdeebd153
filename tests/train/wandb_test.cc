#include "fovea/train/run/wandb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "fovea/train/run/metrics_writer.h"
#include "tests/data/support.h"
#include "tests/support/python.h"

namespace fovea::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WandbTest : public ::testing::Test {
 protected:
  WandbOptions options() {
    WandbOptions options;
    options.project = "fovea-test";
    options.script = std::string(FOVEA_SOURCE_DIR) + "/tools/wandb_follow.py";
    options.warn = [this](const std::string& message) { warnings_.push_back(message); };
    return options;
  }
  std::string log() const {
    std::ostringstream text;
    text << std::ifstream(folder_.path() + "/wandb.log").rdbuf();
    return std::move(text).str();
  }

  data::testing::TempDir folder_;
  std::vector<std::string> warnings_;
};

TEST_F(WandbTest, AMissingPythonIsOneWarning) {
  auto missing = options();
  missing.python = "no-such-python";
  WandbFollower follower(folder_.path(), missing);
  EXPECT_FALSE(follower.is_started());
  follower.stop();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("no-such-python cannot be started")));
}

// Stands in for Python: says what a Python without the package says.
TEST_F(WandbTest, AMissingPackageIsOneWarning) {
  auto without_package = options();
  without_package.python = folder_.write("python", "#!/bin/sh\nexit 3\n");
  std::filesystem::permissions(without_package.python, std::filesystem::perms::owner_all);
  WandbFollower follower(folder_.path(), without_package);
  follower.stop();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("no package wandb")));
}

TEST_F(WandbTest, AHelperThatFailsIsOneWarning) {
  auto failing = options();
  failing.python = "false";
  WandbFollower follower(folder_.path(), failing);
  follower.stop();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("wandb.log says why")));
}

TEST_F(WandbTest, TheEndOfTheRunEndsTheHelperAndASlowOneIsLeft) {
  auto reading = options();
  reading.python = folder_.write("reader", "#!/bin/sh\ncat >/dev/null\n");
  auto slow = options();
  slow.python = folder_.write("slow", "#!/bin/sh\nsleep 3\n");
  for (const auto& script : {reading.python, slow.python}) {
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  }
  { WandbFollower follower(folder_.path(), reading); }
  EXPECT_TRUE(warnings_.empty());
  WandbFollower follower(folder_.path(), slow);
  const auto start = std::chrono::steady_clock::now();
  follower.stop(0.1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("goes on by itself")));
}

TEST_F(WandbTest, DisabledStartsNothing) {
  auto disabled = options();
  disabled.mode = "disabled";
  EXPECT_FALSE(WandbFollower(folder_.path(), disabled).is_started());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(WandbTest, AKeyIsFoundWhereTheClientFindsIt) {
  unsetenv("WANDB_API_KEY");
  unsetenv("WANDB_BASE_URL");
  setenv("NETRC", (folder_.path() + "/netrc").c_str(), 1);
  EXPECT_FALSE(has_wandb_key());
  folder_.write("netrc", "machine other.org login me password x\n");
  EXPECT_FALSE(has_wandb_key());
  folder_.write("netrc", "machine other.org\n  login me\nmachine api.wandb.ai\n  login user\n");
  EXPECT_TRUE(has_wandb_key());
  setenv("WANDB_BASE_URL", "https://wandb.lab.org:8080/x", 1);
  EXPECT_FALSE(has_wandb_key());
  folder_.write("netrc", "machine wandb.lab.org login user password x");
  EXPECT_TRUE(has_wandb_key());
  unsetenv("WANDB_BASE_URL");
  EXPECT_FALSE(has_wandb_key());
  setenv("WANDB_API_KEY", "0123", 1);
  EXPECT_TRUE(has_wandb_key());
  unsetenv("WANDB_API_KEY");
  unsetenv("NETRC");
}

TEST_F(WandbTest, WithoutAKeyItIsSaidThatARunStaysOffline) {
  unsetenv("WANDB_API_KEY");
  setenv("NETRC", (folder_.path() + "/none").c_str(), 1);
  auto by_itself = options();
  by_itself.mode = "auto";
  by_itself.python = folder_.write("python", "#!/bin/sh\necho \"$@\"\n");
  std::filesystem::permissions(by_itself.python, std::filesystem::perms::owner_all);
  WandbFollower(folder_.path(), by_itself).stop();
  EXPECT_THAT(log(), HasSubstr("--mode offline"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("there is no key")));
  setenv("WANDB_API_KEY", "0123", 1);
  WandbFollower(folder_.path(), by_itself).stop();
  EXPECT_THAT(log(), HasSubstr("--mode online"));
  EXPECT_EQ(warnings_.size(), 1u);
  unsetenv("WANDB_API_KEY");
  unsetenv("NETRC");
}

// A run, killed and resumed: the client's own files hold each step once, in order.
TEST_F(WandbTest, TheClientRecordsEachStepOnceOfflineAndAcrossAResume) {
  FOVEA_NEEDS_PYTHON();
  const auto metrics = folder_.path() + "/metrics.jsonl";
  {
    MetricsWriter writer(metrics);
    writer.write({10, 0.5, "train", {{"loss", 2.0}}});
    WandbFollower follower(folder_.path(), options());
    writer.write({20, 1.0, "train", {{"loss", 1.0}}});
    writer.write({20, 1.0, "val", {{"top1", 75.0}}});
    follower.stop(120);
  }
  {
    MetricsWriter writer(metrics);
    writer.cut_after(10);
    writer.write({20, 1.0, "train", {{"loss", 1.0}}});
    WandbFollower follower(folder_.path(), options());
    writer.write({30, 1.5, "train", {{"loss", 0.5}}});
    follower.stop(120);
  }
  ASSERT_TRUE(warnings_.empty()) << warnings_[0] << "\n" << log();
  const auto state = nlohmann::json::parse(std::ifstream(folder_.path() + "/wandb_run.json"));
  EXPECT_EQ(state.at("last_step"), 30);
  const auto result =
      support::run_command(support::python() + " " FOVEA_SOURCE_DIR "/tests/train/wandb_check.py " +
                           folder_.path() + " 2>/dev/null");
  ASSERT_EQ(result.status, 0) << result.output;
  const auto found = nlohmann::json::parse(result.output);
  EXPECT_EQ(found.at("run_ids").size(), 1u);
  EXPECT_EQ(found.at("history"), nlohmann::json::parse(R"([
      {"_step": 10, "epoch": 0.5, "train/loss": 2.0},
      {"_step": 20, "epoch": 1.0, "train/loss": 1.0, "val/top1": 75.0},
      {"_step": 30, "epoch": 1.5, "train/loss": 0.5}])"));
}

}  // namespace
}  // namespace fovea::train
