#include "fovea/elastic/recorded_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/elastic/control/records.h"
#include "fovea/elastic/solve/simulation.h"
#include "fovea/elastic/solve/solve_config.h"
#include "tests/support/temp_dir.h"

namespace fovea::elastic {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 64;

// A run of workers that take 2 ms and so many ms a row, 3 ms to exchange what two or more have, and
// an evaluation of 400 ms each 100 steps.
class MadeUpRun {
 public:
  explicit MadeUpRun(support::TempDir& dir) : dir_(dir) {
    dir.write("config.yaml", std::string("parallel: {slots: 8}\nelastic: {shares: equal}\n"));
  }

  void change(const std::string& reason, std::vector<std::string> workers, double pause_s) {
    Event event{.generation = ++generation_, .reason = reason, .workers = std::move(workers)};
    event.step = step_;
    now_s_ += pause_s;
    event.pause_s = pause_s;
    event.time = now_s_;
    event.global_batch = kBatch;
    const auto before = std::exchange(workers_, event.workers);
    const auto rows_before = std::exchange(rows_, {});
    for (int64_t i = 0; i < std::ssize(workers_); ++i) {
      const auto count = std::ssize(workers_);
      rows_.push_back(8 * (8 * (i + 1) / count - 8 * i / count));
    }
    event.rows = rows_;
    for (size_t i = 0; i < before.size(); ++i) {
      event.measured.push_back({.worker = before[i],
                                .rows = rows_before[i],
                                .own_ms = own_ms(before[i], rows_before[i]),
                                .comm_ms = before.size() > 1 ? 3.0 : 0.0,
                                .steps = 32});
    }
    events_ += to_json(event) + "\n";
  }

  void train(int64_t steps) {
    double longest = 0;
    for (size_t i = 0; i < workers_.size(); ++i) {
      longest = std::max(longest, own_ms(workers_[i], rows_[i]));
    }
    const double ms = longest + (workers_.size() > 1 ? 3 : 0);
    for (int64_t i = 0; i < steps; ++i) {
      now_s_ += ms / 1000;
      lines_ += fmt::format(
          "{{\"step\": {}, \"epoch\": 0, \"split\": \"train\", \"global_batch\": {}, "
          "\"generation\": {}, "
          "\"images_per_second\": {}, \"time\": {:.6f}}}\n",
          ++step_, kBatch, generation_, kBatch * 1000 / ms, now_s_);
      if (step_ % 100 != 0) continue;
      now_s_ += 0.4;
      lines_ += fmt::format(
          "{{\"step\": {}, \"epoch\": 0, \"split\": \"val\", \"top1\": 0.5, \"time\": {:.6f}}}\n",
          step_, now_s_);
    }
  }

  void write() const {
    dir_.write("events.jsonl", events_);
    dir_.write("metrics.jsonl", lines_);
  }
  double hours() const { return (now_s_ - kStart - 1) / 3600; }

  std::map<std::string, double> row_ms = {{"a", 1}, {"b", 1}, {"c", 1.5}};

 private:
  static constexpr double kStart = 1.79e9;
  double own_ms(const std::string& worker, int64_t rows) const {
    return 2 + static_cast<double>(rows) * row_ms.at(worker);
  }

  support::TempDir& dir_;
  double now_s_ = kStart;
  int64_t step_ = 0, generation_ = 0;
  std::vector<std::string> workers_;
  std::vector<int64_t> rows_;
  std::string events_, lines_;
};

void play(MadeUpRun& run) {
  run.change("start", {"a"}, 1);
  run.train(200);
  run.change("join", {"a", "b"}, 0.1);
  run.train(400);
  run.change("join", {"a", "b", "c"}, 0.1);
  run.train(350);
  run.change("death", {"a", "c"}, 3);
  run.train(300);
  run.change("leave", {"a"}, 0.1);
  run.train(250);
  run.write();
}

SimulatedRun simulated(const RecordedRun& run) {
  return simulate(run.trace, run.cluster, run.profiles, 1, {.policy = "elastic"});
}

TEST(RecordedRunTest, PlayedAgainItTakesAsLong) {
  support::TempDir dir;
  MadeUpRun made(dir);
  play(made);
  const auto run = read_recorded_run(dir.path(), 1);
  EXPECT_NEAR(run.hours, made.hours(), 1e-6);
  EXPECT_EQ(run.trace.head.slots, 8);
  EXPECT_EQ(run.trace.head.shares, "equal");
  EXPECT_NEAR(run.trace.head.change_s, 0.1, 1e-9);
  EXPECT_NEAR(run.trace.head.detect_s, 2.9, 1e-9);
  const auto again = simulated(run);
  EXPECT_TRUE(again.is_done);
  EXPECT_EQ(again.changes, 4);
  EXPECT_NEAR(again.hours / run.hours, 1, 0.05);
}

// From what was seen before c joined, and how long it took in its first steps, the rest is
// predicted: steps of a and c alone were never seen.
TEST(RecordedRunTest, TheRestFollowsFromAFirstPart) {
  support::TempDir dir;
  MadeUpRun made(dir);
  play(made);
  const auto run = read_recorded_run(dir.path(), 0.65);
  EXPECT_LT(run.learned_hours, 0.75 * run.hours);
  EXPECT_NEAR(simulated(run).hours / run.hours, 1, 0.1);
}

TEST(RecordedRunTest, WhatWasWrittenIsSimulatedAlike) {
  support::TempDir dir;
  MadeUpRun made(dir);
  play(made);
  const auto run = read_recorded_run(dir.path(), 0.5);
  const auto folder = dir.path() + "/trace";
  write_recorded_run(run, folder);
  const auto input = load_solve_input(folder + "/config.json");
  const auto text = read_file(folder + "/trace.jsonl", 1 << 20);
  const auto trace = parse_trace(text, "trace.jsonl", input.cluster);
  const auto again = simulate(trace, input.cluster, input.profiles, 1, {.policy = "elastic"});
  EXPECT_NEAR(again.hours, simulated(run).hours, 1e-9);
}

TEST(RecordedRunTest, OtherFoldersAreRefused) {
  support::TempDir dir;
  const auto refusal = [&] {
    try {
      read_recorded_run(dir.path(), 1);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(refusal(), HasSubstr("events.jsonl"));
  Event event{.generation = 1, .reason = "start", .workers = {"a"}};
  dir.write("events.jsonl", to_json(event) + "\n");
  EXPECT_THAT(refusal(), HasSubstr("an older version"));
  event.time = 5;
  event.rows = {64};
  dir.write("events.jsonl", to_json(event) + "\n");
  dir.write("metrics.jsonl", std::string("{\"step\": 1}\n"));
  EXPECT_THAT(refusal(), HasSubstr("no steps"));
  event.measured = {{.worker = "a", .rows = 64, .own_ms = -1}};
  dir.write("events.jsonl", to_json(event) + "\n");
  EXPECT_THAT(refusal(), HasSubstr("events.jsonl:1: measured"));
  event.measured.clear();
  dir.write("events.jsonl", to_json(event) + "\n");
  dir.write(
      "metrics.jsonl",
      std::string("{\"step\": 1, \"split\": \"train\", \"generation\": 1, \"global_batch\": 8, "
                  "\"images_per_second\": 0, \"time\": 6}\n"));
  EXPECT_THAT(refusal(), HasSubstr("metrics.jsonl:1"));
}

}  // namespace
}  // namespace fovea::elastic
