#include "fovea/core/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/files/atomic_file.h"
#include "tests/support/temp_dir.h"

namespace fovea::trace {
namespace {

using ::testing::HasSubstr;

TEST(TraceTest, KeepsWhatHappensWhileItIsOn) {
  add({.name = "before", .category = kStep, .begin = 1, .end = 2});
  { const Scope off("off"); }
  start();
  EXPECT_TRUE(is_on());
  {
    const Scope outer("outer");
    const Scope inner("inner");
  }
  const auto spans = stop();
  EXPECT_FALSE(is_on());
  add({.name = "after", .category = kStep, .begin = 1, .end = 2});
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_LE(spans[0].begin, spans[1].begin);
  for (const auto& span : spans) EXPECT_LE(span.begin, span.end);
  start();
  EXPECT_TRUE(stop().empty());
}

TEST(TraceTest, CollectivesThatOverlapLieInRowsOfTheirOwn) {
  const std::vector<Span> spans = {
      {.name = "backward", .category = kStep, .begin = 0, .end = 100},
      {.name = "a", .category = kCollective, .begin = 10, .end = 50, .bytes = 8, .group = "tp"},
      {.name = "b", .category = kCollective, .begin = 20, .end = 60},
      {.name = "c", .category = kCollective, .begin = 50, .end = 70},
  };
  std::map<std::string, nlohmann::json> events;
  const auto trace = nlohmann::json::parse(to_chrome(spans, 3));
  for (const auto& event : trace.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 3);
    if (event.at("ph") == "X") events[event.at("name")] = event;
  }
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events["backward"].at("tid"), 0);
  EXPECT_EQ(events["a"].at("tid"), 1);
  EXPECT_EQ(events["b"].at("tid"), 2);
  EXPECT_EQ(events["c"].at("tid"), 1);
  EXPECT_EQ(events["a"].at("ts"), 10);
  EXPECT_EQ(events["a"].at("dur"), 40);
  EXPECT_EQ(events["a"].at("args").at("bytes"), 8);
  EXPECT_EQ(events["a"].at("args").at("axis"), "tp");
}

TEST(TraceTest, JoinsProcessesAndNamesADamagedFile) {
  const support::TempDir folder;
  const auto path = [&](int rank) { return folder.path() + "/" + std::to_string(rank) + ".json"; };
  const std::vector<Span> spans = {{.name = "x", .category = kStep, .begin = 0, .end = 1}};
  for (const int rank : {0, 1}) write_file_atomic(path(rank), to_chrome(spans, rank));
  const auto joined = nlohmann::json::parse(merge_chrome({path(0), path(1)}));
  std::vector<int64_t> ranks;
  for (const auto& event : joined.at("traceEvents")) {
    if (event.at("name") == "x") ranks.push_back(event.at("pid"));
  }
  EXPECT_EQ(ranks, (std::vector<int64_t>{0, 1}));
  write_file_atomic(path(1), "{\"traceEvents\": [");
  try {
    merge_chrome({path(0), path(1)});
    ADD_FAILURE() << "half a file was taken for a timeline";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path(1)));
  }
}

}  // namespace
}  // namespace fovea::trace
