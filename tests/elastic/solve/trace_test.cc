#include "fovea/elastic/solve/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "tests/elastic/solve/solve_cases.h"

namespace fovea::elastic {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kHead =
    R"({"config": "c.json", "global_batch": 64, "samples": 1e6, "hours": 24})";

Cluster two_hosts() {
  return {.hosts = {testing::host_of("a", "fast", 2, 1), testing::host_of("b", "slow", 1, 1)}};
}

std::string refusal_of_trace(const std::string& lines, const std::string& head = kHead) {
  try {
    parse_trace(head + "\n" + lines, "t.jsonl", two_hosts());
  } catch (const DataError& error) {
    return error.what();
  }
  return "read";
}

TEST(TraceTest, EventsAreReadInTheirOrder) {
  const auto trace = parse_trace(kHead + R"(
{"hour": 0, "event": "join", "host": "b"}

{"hour": 0.5, "event": "fail", "host": "b"}
{"hour": 1, "event": "price", "type": "fast", "price_per_hour": 0.25}
{"hour": 1, "event": "join", "host": "b"})",
                                 "t", two_hosts());
  ASSERT_EQ(trace.events.size(), 4U);
  EXPECT_EQ(trace.events[1].kind, TraceEventKind::kFail);
  EXPECT_EQ(trace.events[1].host, 1U);
  EXPECT_EQ(trace.events[2].price, 0.25);
  EXPECT_EQ(trace.head.epoch_samples, 1e6);
}

TEST(TraceTest, BadLinesAreRefusedByNumberAndKey) {
  const std::string join = R"({"hour": 1, "event": "join", "host": "a"})";
  EXPECT_THAT(refusal_of_trace(R"({"hour": 0, "event": "leave", "host": "a"})"),
              AllOf(HasSubstr("t.jsonl:2"), HasSubstr("host"), HasSubstr("before it has joined")));
  EXPECT_THAT(refusal_of_trace(join + "\n" + join),
              AllOf(HasSubstr("t.jsonl:3"), HasSubstr("joins")));
  EXPECT_THAT(refusal_of_trace(join + "\n" + R"({"hour": 0.5, "event": "fail", "host": "a"})"),
              AllOf(HasSubstr("t.jsonl:3"), HasSubstr("hour")));
  EXPECT_THAT(refusal_of_trace(R"({"hour": 1, "event": "join", "host": "c"})"),
              AllOf(HasSubstr("t.jsonl:2"), HasSubstr("host")));
  EXPECT_THAT(refusal_of_trace(R"({"hour": 1, "event": "jion", "host": "a"})"),
              HasSubstr("mean join"));
  EXPECT_THAT(refusal_of_trace(R"({"hour": 25, "event": "join", "host": "a"})"), HasSubstr("hour"));
  EXPECT_THAT(
      refusal_of_trace(R"({"hour": 1, "event": "price", "type": "x", "price_per_hour": 1})"),
      AllOf(HasSubstr("t.jsonl:2"), HasSubstr("type")));
  EXPECT_THAT(refusal_of_trace(R"({"hour": 1, "event": "price", "type": "fast"})"),
              HasSubstr("price_per_hour"));
  EXPECT_THAT(refusal_of_trace(R"({"hour": 1, "event": "join", "host": "a", "color": 1})"),
              AllOf(HasSubstr("t.jsonl:2"), HasSubstr("color")));
  EXPECT_THAT(refusal_of_trace("{\"hour\": 1,"), HasSubstr("t.jsonl:2"));
  EXPECT_THAT(refusal_of_trace(""), HasSubstr("no events"));
  EXPECT_THAT(
      refusal_of_trace(join, R"({"config": "c", "global_batch": 0, "samples": 1, "hours": 1})"),
      AllOf(HasSubstr("t.jsonl:1"), HasSubstr("global_batch")));
}

}  // namespace
}  // namespace fovea::elastic
