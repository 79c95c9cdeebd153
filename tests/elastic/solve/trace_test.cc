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

// The recipe's keys, unless the trace has them itself.
TEST(TraceTest, WhatTheFirstLineLeavesOpenIsTakenFromElsewhere) {
  TraceHead otherwise;
  otherwise.shares = "equal";
  otherwise.shares_gain = 0.3;
  otherwise.shares_after = 20;
  const auto head = parse_trace_head(
      R"({"config": "c", "global_batch": 64, "samples": 1e6, "hours": 24, "shares_gain": 0.2})",
      "t", otherwise);
  EXPECT_EQ(head.shares, "equal");
  EXPECT_EQ(head.shares_gain, 0.2);
  EXPECT_EQ(head.shares_after, 20);
  EXPECT_EQ(parse_trace_head(kHead, "t").shares_gain, 0.1);
  EXPECT_THAT(refusal_of_trace("", R"({"config": "c", "global_batch": 64, "samples": 1e6, )"
                                   R"("hours": 24, "shares_gain": 0})"),
              HasSubstr("t.jsonl:1: shares_gain"));
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

TEST(TraceTest, BatchesGoByTheHourOrBySamples) {
  const std::string join = "{\"hour\": 0, \"event\": \"join\", \"host\": \"a\"}\n";
  const std::string by_hour = "{\"hour\": 2, \"event\": \"batch\", \"global_batch\": 128}\n";
  const std::string by_samples =
      "{\"samples\": 500, \"event\": \"batch\", \"global_batch\": 256}\n";
  const auto hours = parse_trace(kHead + "\n" + join + by_hour, "t", two_hosts());
  EXPECT_EQ(hours.events.at(1).kind, TraceEventKind::kBatch);
  EXPECT_EQ(hours.events.at(1).global_batch, 128);
  const auto samples = parse_trace(kHead + "\n" + by_samples + join, "t", two_hosts());
  ASSERT_EQ(samples.batches.size(), 1U);
  EXPECT_EQ(samples.batches[0].samples, 500);
  EXPECT_EQ(samples.batches[0].global_batch, 256);
  EXPECT_THAT(refusal_of_trace(join + by_hour + by_samples),
              AllOf(HasSubstr("t.jsonl:4"), HasSubstr("by samples in one trace")));
  EXPECT_THAT(refusal_of_trace(join + by_samples + by_hour), HasSubstr("t.jsonl:4"));
  EXPECT_THAT(
      refusal_of_trace(by_samples + R"({"samples": 400, "event": "batch", "global_batch": 8})"),
      AllOf(HasSubstr("t.jsonl:3"), HasSubstr("samples")));
  EXPECT_THAT(refusal_of_trace(R"({"hour": 1, "event": "batch"})"),
              AllOf(HasSubstr("t.jsonl:2"), HasSubstr("global_batch")));
  EXPECT_THAT(refusal_of_trace(R"({"event": "batch", "global_batch": 8})"), HasSubstr("hour"));
  EXPECT_THAT(refusal_of_trace(R"({"hour": 1, "samples": 5, "event": "batch", "global_batch": 8})"),
              HasSubstr("beside hour"));
  EXPECT_THAT(refusal_of_trace(R"({"samples": 5, "event": "join", "host": "a"})"),
              HasSubstr("only batches"));
}

TEST(TraceTest, AWrittenTraceIsReadAsItWas) {
  Trace trace{.head = parse_trace_head(kHead, "t"), .events = {}};
  trace.head.slots = 8;
  trace.head.shares = "equal";
  trace.events = {{.hour = 0, .host = 0},
                  {.hour = 0.1 + 0.2, .kind = TraceEventKind::kJoin, .host = 1},
                  {.hour = 1, .kind = TraceEventKind::kPrice, .type = "fast", .price = 0.1},
                  {.hour = 2, .kind = TraceEventKind::kLeave, .host = 0},
                  {.hour = 3, .kind = TraceEventKind::kFail, .host = 1}};
  trace.batches = {{0.0, 32}, {12345.0, 64}};
  const auto read = parse_trace(trace_text(trace, two_hosts()), "t", two_hosts());
  EXPECT_EQ(read.head.slots, 8);
  EXPECT_EQ(read.head.shares, "equal");
  ASSERT_EQ(read.events.size(), trace.events.size());
  for (size_t i = 0; i < read.events.size(); ++i) {
    EXPECT_EQ(read.events[i].hour, trace.events[i].hour);
    EXPECT_EQ(read.events[i].kind, trace.events[i].kind);
    if (trace.events[i].kind != TraceEventKind::kPrice) {
      EXPECT_EQ(read.events[i].host, trace.events[i].host);
    }
  }
  ASSERT_EQ(read.batches.size(), 2U);
  EXPECT_EQ(read.batches[1].samples, 12345);
}

}  // namespace
}  // namespace fovea::elastic
