#include "fovea/track/mlflow_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/track/tracked_folder.h"

namespace fovea::track {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using Mood = FakeMlflow::Mood;

class MlflowSenderTest : public ::testing::Test {
 protected:
  std::unique_ptr<MlflowSender> sender(bool is_live = false) {
    MlflowConfig config;
    config.uri = server_.url();
    config.experiment = "flowers";
    config.tags = {{"team", "vision"}};
    config.artifacts = artifacts_;
    return std::make_unique<MlflowSender>(
        folder_.path(), config, Facts{{"fovea.hosts", "2"}}, is_live,
        [this](const std::string& warning) { warnings_.push_back(warning); });
  }
  std::string refusal(MlflowError::Kind kind) {
    try {
      sender()->send_metrics();
    } catch (const MlflowError& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "";
  }

  TrackedFolder folder_;
  FakeMlflow server_;
  std::vector<std::string> artifacts_ = {"report"};
  std::vector<std::string> warnings_;
};

TEST_F(MlflowSenderTest, ARunIsThereWithAllThatIsKnownOfIt) {
  folder_.add_steps(1, 3);
  auto first = sender(true);
  first->send_metrics();
  EXPECT_TRUE(folder_.is_all_there_once(server_));
  auto run = server_.runs().at(0);
  EXPECT_EQ(run.name, "run");
  EXPECT_EQ(run.status, "RUNNING");
  EXPECT_THAT(run.params, ElementsAre(Pair("model.depth", "2"), Pair("model.name", "vit"),
                                      Pair("optim.betas", "[0.9, 0.99]")));
  EXPECT_THAT(run.tags, IsSupersetOf({Pair("fovea.version", "0.1.0"), Pair("fovea.hosts", "2"),
                                      Pair("team", "vision")}));
  EXPECT_EQ(run.values.at({"train/loss", 2}), "\"NaN\"");
  EXPECT_EQ(run.values.at({"train/loss", 3}), "0.1");
  EXPECT_THAT(server_.files(), IsEmpty());
  first->finish(RunEnd::kFinished);
  EXPECT_EQ(server_.runs().at(0).status, "FINISHED");
  EXPECT_THAT(server_.files(),
              Contains(Pair("/api/2.0/mlflow-artifacts/artifacts/7/run0/report.html", "<html>")));
  EXPECT_EQ(first->sent().values, 6);
  EXPECT_EQ(first->sent().files, 2);
  EXPECT_THAT(first->page(), HasSubstr("/#/experiments/7/runs/run0"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(MlflowSenderTest, AnotherProcessGoesOnWithTheSameRun) {
  folder_.add_steps(1, 3);
  sender()->finish(RunEnd::kStopped);
  EXPECT_EQ(server_.runs().at(0).status, "KILLED");
  folder_.add_steps(4, 6);
  auto next = sender(true);
  EXPECT_EQ(next->num_waiting(), 6);
  next->send_metrics();
  EXPECT_EQ(server_.runs().at(0).status, "RUNNING");
  EXPECT_EQ(next->num_waiting(), 0);
  next->finish(RunEnd::kStopped);
  EXPECT_EQ(server_.runs().at(0).status, "KILLED");
  EXPECT_TRUE(folder_.is_all_there_once(server_));
}

// The answer to each request in turn does not come, and the process is lost with it: what the
// server has taken is not sent again, whatever it was.
TEST_F(MlflowSenderTest, EachValueIsThereOnceWhereverAProcessIsLost) {
  folder_.add_steps(1, 5);
  for (int requests = 0; requests < 12; ++requests) {
    for (const auto mood : {Mood::kTakenButCut, Mood::kCut, Mood::kError500}) {
      server_.mood = mood;
      server_.num_well = requests;
      try {
        sender()->send_metrics();
      } catch (const MlflowError& error) {
        EXPECT_EQ(error.kind(), MlflowError::Kind::kAway) << error.what();
      }
    }
    server_.mood = Mood::kWell;
    const auto next = 6 + requests;
    folder_.add_steps(next, next);
  }
  sender()->send_metrics();
  EXPECT_TRUE(folder_.is_all_there_once(server_));
}

// The same where the process lives.
TEST_F(MlflowSenderTest, ASenderGoesOnAfterALostAnswer) {
  folder_.add_steps(1, 5);
  auto same = sender();
  same->send_metrics();
  folder_.add_steps(6, 9);
  server_.mood = Mood::kTakenButCut;
  EXPECT_THROW(same->send_metrics(), MlflowError);
  server_.mood = Mood::kWell;
  same->send_metrics();
  EXPECT_TRUE(folder_.is_all_there_once(server_));
}

TEST_F(MlflowSenderTest, LinesThatAResumedRunWritesAnewAreNotSentAgain) {
  folder_.add_steps(1, 6);
  auto live = sender(true);
  live->send_metrics();
  std::filesystem::remove(folder_.file("metrics.jsonl"));
  folder_.add_steps(1, 8);
  live->send_metrics();
  EXPECT_TRUE(folder_.is_all_there_once(server_));
}

TEST_F(MlflowSenderTest, ManyValuesGoInRequestsOfTheLimit) {
  folder_.add_steps(1, 1700);
  sender()->send_metrics();
  EXPECT_TRUE(folder_.is_all_there_once(server_));
  EXPECT_EQ(server_.largest_batch(), kMostMetrics);
}

TEST_F(MlflowSenderTest, FilesAreSentOnceUnlessTheyChange) {
  artifacts_ = {"report", "weights"};
  sender()->finish(RunEnd::kFinished);
  EXPECT_EQ(server_.files().size(), 2u);  // there are no weights
  auto again = sender();
  again->finish(RunEnd::kFinished);
  EXPECT_EQ(again->sent().files, 0);
  std::ofstream(folder_.file("report.html")) << "<html>more";
  EXPECT_THAT(again->files_waiting(), ElementsAre("report.html"));
  again->finish(RunEnd::kFinished);
  EXPECT_EQ(again->sent().files, 1);
  artifacts_ = {"none"};
  std::ofstream(folder_.file("report.html")) << "<html>even more";
  EXPECT_THAT(sender()->files_waiting(), IsEmpty());
}

TEST_F(MlflowSenderTest, OneSendsAtATime) {
  auto one = sender();
  one->send_metrics();
  EXPECT_THAT(refusal(MlflowError::Kind::kAway), HasSubstr("another process sends"));
  one.reset();
  sender()->send_metrics();
}

TEST_F(MlflowSenderTest, WhatCannotGoOnSaysWhatToDo) {
  server_.mood = Mood::kDenied;
  EXPECT_THAT(refusal(MlflowError::Kind::kRefused), HasSubstr("set MLFLOW_TRACKING_USERNAME"));
  server_.mood = Mood::kWell;
  sender()->send_metrics();
  server_.is_run_deleted = true;
  EXPECT_THAT(refusal(MlflowError::Kind::kRefused), HasSubstr("mlflow runs restore --run-id run0"));
  server_.is_run_deleted = false;
  const FakeMlflow other;
  MlflowConfig config;
  config.uri = other.url();
  EXPECT_THAT([&] { MlflowSender(folder_.path(), config, {}, false, {}).send_metrics(); },
              ::testing::ThrowsMessage<MlflowError>(
                  ::testing::AllOf(HasSubstr(server_.url()), HasSubstr("to begin another one"))));
  std::filesystem::remove(folder_.file(kTrackedRunFile));
  server_.is_experiment_deleted = true;
  EXPECT_THAT(refusal(MlflowError::Kind::kRefused),
              HasSubstr("mlflow experiments restore --experiment-id 7"));
}

TEST_F(MlflowSenderTest, AServerOfSomethingElseIsNamed) {
  MlflowConfig config;
  config.uri = server_.url() + "/elsewhere";
  EXPECT_THAT([&] { MlflowSender(folder_.path(), config, {}, false, {}).send_metrics(); },
              ::testing::ThrowsMessage<MlflowError>(HasSubstr("not as MLflow does: HTTP 404")));
}

TEST_F(MlflowSenderTest, DamagedNotesAreNotGuessedAt) {
  sender()->send_metrics();
  std::ofstream(folder_.file(kTrackedRunFile)) << R"({"mark": "'; drop", "uri": "", "run_id": "",
      "experiment_id": "", "sent": {}, "files": {}})";
  EXPECT_THAT([&] { sender(); }, ::testing::ThrowsMessage<DataError>(HasSubstr("mlflow_run.json")));
}

}  // namespace
}  // namespace fovea::track
