#include "fovea/parallel/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "fovea/parallel/rank_error.h"
#include "fovea/parallel/rank_wait.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr milliseconds kWatchPatience{20000};

// A store, and the watch of rank 0 of two.
class WatchTest : public ::testing::Test {
 protected:
  WatchTest()
      : server_(std::make_unique<StoreServer>(
            listen_at("127.0.0.1", 0, false, std::chrono::steady_clock::now() + kWatchPatience),
            "")),
        store_({.place = {.address = "127.0.0.1", .port = server_->port()},
                .timeout = kWatchPatience}) {
    watch_ = std::make_unique<Watch>(store_.clone(kWatchPatience), 0, 2,
                                     WatchPatience{.stale = kWatchPatience});
  }

  // What a wait of this rank ends with once `text` stands where ranks tell of their failures.
  std::pair<std::string, ExitCode> end_of_wait(const std::string& text) {
    store_.set("failure", text);
    try {
      RankWait("a test", kWatchPatience, *watch_).until([](milliseconds) {
        std::this_thread::sleep_for(milliseconds(20));
        return false;
      });
    } catch (const RankError& error) {
      return {error.what(), error.exit_code()};
    }
    return {"it did not end", ExitCode::kDone};
  }

  std::unique_ptr<StoreServer> server_;
  KeyStore store_;
  std::unique_ptr<Watch> watch_;
};

TEST(RankFailureTest, CodesAreThoseOfAFailure) {
  for (const auto& [told, taken] : std::map<int, int>{{2, 2},
                                                      {3, 3},
                                                      {4, 4},
                                                      {5, 5},
                                                      {6, 6},
                                                      {7, 7},  // the documented ones
                                                      {0, 7},
                                                      {1, 7},
                                                      {75, 7},
                                                      {999, 7},
                                                      {-1, 7},
                                                      {256, 7}}) {
    const auto failure = failure_from(
        fmt::format(R"({{"rank": 1, "step": 3, "code": {}, "message": "m"}})", told), 2);
    EXPECT_EQ(static_cast<int>(failure.code), taken) << told;
    EXPECT_EQ(failure.text(), "rank 1 failed at step 3: m");
  }
}

TEST(RankFailureTest, WhatIsNoneIsDamaged) {
  const std::string deep(60000, '[');
  for (const auto& text : {std::string(""), std::string("{"), std::string("null"), deep,
                           std::string("[1]"), std::string(R"({"rank": 2, "message": "m"})"),
                           std::string(R"({"rank": -1, "message": "m"})"),
                           std::string(R"({"rank": "1", "message": "m"})"),
                           std::string(R"({"rank": 1, "step": 0, "code": 0})"),
                           std::string(R"({"rank": 1, "message": [1]})"),
                           std::string("\x1b]0;title\x07") + std::string(10 << 20, 'x')}) {
    const auto failure = failure_from(text, 2);
    EXPECT_EQ(failure.code, ExitCode::kHang);
    EXPECT_THAT(failure.text(), AllOf(HasSubstr("is damaged"), Not(HasSubstr("\x1b"))));
    EXPECT_LT(failure.text().size(), 300u);
  }
  const auto odd =
      failure_from(R"({"rank": 1, "step": "x", "code": 1e99, "message": "m", "more": 1})", 2);
  EXPECT_EQ(odd.text(), "rank 1 failed before its first step: m");
  EXPECT_EQ(odd.code, ExitCode::kHang);
}

TEST(RankFailureTest, TextsAreCutAndWriteNothingToATerminal) {
  const RankFailure told{.rank = 1,
                         .step = 2,
                         .code = ExitCode::kData,
                         .message = "two\nlines\x1b[2J" + std::string(10 << 20, 'x')};
  const auto text = to_text(told);
  EXPECT_LT(text.size(), 10000u);
  const auto read = failure_from(text, 2);
  EXPECT_EQ(read.code, ExitCode::kData);
  EXPECT_THAT(read.text(), AllOf(HasSubstr("two\nlines\\x1b[2J"), Not(HasSubstr("\x1b"))));
}

TEST(RankBeatTest, ReadsWhatItWritesAndNothingElse) {
  const RankBeat beat{.count = 3, .step = -1, .operation = "waiting in all_reduce of losses"};
  const auto read = beat_from(to_text(beat));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->count, 3);
  EXPECT_EQ(read->place(), "before its first step");
  EXPECT_EQ(read->operation, beat.operation);
  EXPECT_EQ(beat_from("5 17")->place(), "at step 17");
  EXPECT_EQ(beat_from("5 17 \x1b[2J")->operation, "\\x1b[2J");
  for (const char* text : {"", "x", "5", "5 ", "5 x", " 5 6", "99999999999999999999 1"}) {
    EXPECT_FALSE(beat_from(text).has_value()) << text;
  }
  EXPECT_LT(to_text(RankBeat{.operation = std::string(10 << 20, 'x')}).size(), 300u);
}

TEST_F(WatchTest, AFailureOfAnotherRankEndsAWait) {
  const auto [message, code] = end_of_wait(
      to_text(RankFailure{.rank = 1, .step = 5, .code = ExitCode::kData, .message = "no label"}));
  EXPECT_EQ(message, "rank 0, step -1, a test: rank 1 failed at step 5: no label");
  EXPECT_EQ(code, ExitCode::kData);
}

TEST_F(WatchTest, AStrangersFailureIsNeverASuccess) {
  const auto [message, code] =
      end_of_wait(R"({"rank": 1, "step": 5, "code": 0, "message": "\u001b[2Jall is well"})");
  EXPECT_EQ(code, ExitCode::kHang);
  EXPECT_THAT(message, HasSubstr("\\x1b[2Jall is well"));
}

TEST_F(WatchTest, AFailureThatIsTooLongIsDamaged) {
  const auto [message, code] = end_of_wait(std::string(7 << 20, 'x'));
  EXPECT_EQ(code, ExitCode::kHang);
  EXPECT_THAT(message, HasSubstr("is damaged"));
  EXPECT_LT(message.size(), 400u);
}

TEST_F(WatchTest, ARankThatIsAloneIsEndedWhateverItDoes) {
  std::promise<std::string> told;
  watch_->on_alone([&](const std::string& why) { told.set_value(why); }, milliseconds(1));
  server_.reset();  // and this thread is in no collective
  auto why = told.get_future();
  ASSERT_EQ(why.wait_for(kWatchPatience), std::future_status::ready);
  EXPECT_THAT(why.get(), HasSubstr("in which the ranks meet"));
  EXPECT_THAT(watch_->failure()->text(), HasSubstr("in which the ranks meet"));
}

TEST_F(WatchTest, WhoLeavesIsNotEnded) {
  bool is_ended = false;
  watch_->on_alone([&](const std::string&) { is_ended = true; }, milliseconds(1));
  watch_->on_alone({});
  server_.reset();
  while (!watch_->failure()) std::this_thread::sleep_for(milliseconds(5));
  watch_.reset();
  EXPECT_FALSE(is_ended);
}

}  // namespace
}  // namespace fovea::parallel
