#include "fovea/track/mlflow_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tests/track/tracked_folder.h"

namespace fovea::track {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Mood = FakeMlflow::Mood;

class MlflowFollowerTest : public ::testing::Test {
 protected:
  std::unique_ptr<MlflowFollower> follower(const std::string& uri) {
    MlflowConfig config;
    config.uri = uri;
    const auto into = [this](std::vector<std::string>& list) {
      return [this, &list](const std::string& text) {
        const std::lock_guard lock(mutex_);
        list.push_back(text);
      };
    };
    return std::make_unique<MlflowFollower>(folder_.path(), config, Facts{},
                                            FollowerOptions{.every = milliseconds(5),
                                                            .retry_first = milliseconds(5),
                                                            .retry_longest = milliseconds(20),
                                                            .warn = into(warnings_),
                                                            .say = into(said_)});
  }
  std::vector<std::string> warnings() const {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  bool comes(const std::function<bool()>& is_there) const {
    for (int i = 0; i < 2000 && !is_there(); ++i) std::this_thread::sleep_for(milliseconds(5));
    return is_there();
  }

  TrackedFolder folder_;
  FakeMlflow server_;
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_, said_;
};

TEST_F(MlflowFollowerTest, SendsWhileARunGoesOn) {
  auto follows = follower(server_.url());
  folder_.add_steps(1, 3);
  EXPECT_TRUE(comes([&] { return folder_.is_all_there_once(server_); }));
  folder_.add_steps(4, 5);
  follows->stop(RunEnd::kFinished);
  EXPECT_TRUE(folder_.is_all_there_once(server_));
  EXPECT_EQ(server_.runs().at(0).status, "FINISHED");
  EXPECT_EQ(server_.files().size(), 2u);
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("/runs/run0")));
}

TEST_F(MlflowFollowerTest, AServerThatWasAwayGetsEverythingLater) {
  server_.mood = Mood::kError500;
  auto follows = follower(server_.url());
  folder_.add_steps(1, 3);
  EXPECT_TRUE(comes([&] { return !warnings().empty(); }));
  std::this_thread::sleep_for(milliseconds(50));  // several tries
  server_.mood = Mood::kWell;
  EXPECT_TRUE(comes([&] { return folder_.is_all_there_once(server_); }));
  follows->stop(RunEnd::kStopped);
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("HTTP 500"), HasSubstr("asked again"))));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("is back"), HasSubstr("/runs/run0")));
  EXPECT_EQ(server_.runs().at(0).status, "KILLED");
}

TEST_F(MlflowFollowerTest, OneThatHangsIsLeftAndWhatWaitsIsSaid) {
  folder_.add_steps(1, 3);
  server_.mood = Mood::kHangs;
  auto follows = follower(server_.url());
  const auto start = std::chrono::steady_clock::now();
  follows->stop(RunEnd::kFinished, milliseconds(100));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(4000));
  server_.mood = Mood::kWell;
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("6 values and 2 files wait"),
                                           HasSubstr("fovea track " + folder_.path()))));
}

TEST_F(MlflowFollowerTest, OneThatDeniesIsNotAskedAgain) {
  folder_.add_steps(1, 3);
  server_.mood = Mood::kDenied;
  auto follows = follower(server_.url());
  EXPECT_TRUE(comes([&] { return !warnings().empty(); }));
  server_.mood = Mood::kWell;
  follows->stop(RunEnd::kStopped);
  EXPECT_THAT(server_.runs(), IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("nothing is sent any more"),
                                     HasSubstr("6 values and 0 files wait")));
}

TEST_F(MlflowFollowerTest, NoAddressIsOneWarning) {
  unsetenv("MLFLOW_TRACKING_URI");
  follower("")->stop({});
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("no metrics are sent")));
}

}  // namespace
}  // namespace fovea::track
