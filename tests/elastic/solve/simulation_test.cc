#include "fovea/elastic/solve/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "fovea/core/error.h"
#include "tests/elastic/solve/solve_cases.h"

namespace fovea::elastic {
namespace {

using ::testing::HasSubstr;

// Two hosts of two devices each, and one of a single slow one. 1,024 samples a step.
testing::SolveCase small_cluster() {
  testing::SolveCase made;
  made.profiles.model = "vit";
  made.profiles.devices = {testing::device_profile("fast", 1, 32, 1),
                           testing::device_profile("slow", 400, 32, 1)};
  made.cluster.hosts = {testing::host_of("a", "fast", 2, 1), testing::host_of("b", "fast", 2, 1),
                        testing::host_of("c", "slow", 1, 1)};
  testing::add_network(made.profiles, 5, 0.1);
  return made;
}

TraceHead head_of(double samples) {
  return {.config = "c",
          .global_batch = 1024,
          .samples = samples,
          .hours = 100,
          .epoch_samples = samples / 4,
          .change_s = 2,
          .detect_s = 3,
          .restart_s = 60,
          .checkpoint_minutes = 30};
}

TraceEvent join(double hour, size_t host) {
  return {.hour = hour, .kind = TraceEventKind::kJoin, .host = host};
}

SimulatedRun run(const testing::SolveCase& made, const Trace& trace, const std::string& policy) {
  return simulate(trace, made.cluster, made.profiles, 1, {.policy = policy});
}

TEST(SimulationTest, AStillClusterTakesWhatItsStepTakes) {
  const auto made = small_cluster();
  const Trace trace{.head = head_of(1.024e7), .events = {join(0, 0)}};
  Cluster alone{.hosts = {made.cluster.hosts[0]}};
  const SolveModel model(alone, made.profiles, WeightSync::kOverlap);
  const double ms = solve(alone, model, {.global_batch = 1024}).iteration_ms;
  const double hours = 60.0 / 3600 + 1e4 * ms / 3.6e6;
  for (const auto* policy : {"fixed", "ours"}) {
    const auto simulated = run(made, trace, policy);
    EXPECT_TRUE(simulated.is_done);
    EXPECT_NEAR(simulated.hours, hours, 1e-9 * hours) << policy;
    EXPECT_NEAR(simulated.cost, 2 * hours, 1e-6 * hours) << policy;
    EXPECT_EQ(simulated.changes, 0);
    EXPECT_EQ(simulated.samples, 1.024e7);
    EXPECT_NEAR(simulated.idle_hours, 60.0 / 3600, 1e-9);
  }
}

// Ours loses nothing, a run of fixed devices what it did since its checkpoint, JABAS's its epoch.
TEST(SimulationTest, AFailureCostsWhatThePolicyLoses) {
  const auto made = small_cluster();
  Trace trace{.head = head_of(1.024e7), .events = {join(0, 0), join(0, 1)}};
  trace.events.push_back({.hour = 1.75, .kind = TraceEventKind::kFail, .host = 1});
  trace.events.push_back(join(2, 1));
  const auto ours = run(made, trace, "ours");
  const auto fixed = run(made, trace, "fixed");
  const auto upstream = run(made, trace, "upstream");
  EXPECT_EQ(ours.lost_samples, 0);
  EXPECT_EQ(ours.changes, 2);  // without it, and with it again
  EXPECT_NEAR(ours.idle_hours, (60 + 5 + 2) / 3600.0, 1e-9);
  // It worked for 1.75 hours less a minute: 13.333 of them behind the last half hour.
  const double rate = fixed.points[2].images_per_second;
  EXPECT_NEAR(fixed.lost_samples, rate * (1.75 * 3600 - 60 - 3 * 1800), 1);
  EXPECT_EQ(fixed.changes, 1);
  EXPECT_NEAR(fixed.idle_hours, 0.25 + 2 * 60 / 3600.0, 1e-9);
  EXPECT_GT(upstream.lost_samples, 0);
  EXPECT_LT(ours.hours, fixed.hours);
  EXPECT_LT(ours.hours, upstream.hours);
}

TEST(SimulationTest, WhoLeavesWithAWordLosesNothing) {
  const auto made = small_cluster();
  Trace trace{.head = head_of(1.024e7), .events = {join(0, 0), join(0, 1)}};
  trace.events.push_back({.hour = 1.75, .kind = TraceEventKind::kLeave, .host = 1});
  trace.events.push_back(join(2, 1));
  EXPECT_EQ(run(made, trace, "fixed").lost_samples, 0);
  EXPECT_GT(run(made, trace, "upstream").lost_samples, 0);
  EXPECT_NEAR(run(made, trace, "ours").idle_hours, (60 + 2 + 2) / 3600.0, 1e-9);
}

// A change is made where it gains more than it takes.
TEST(SimulationTest, AChangeIsWeighedAgainstItsPause) {
  const auto made = small_cluster();
  Trace trace{.head = head_of(1.024e7), .events = {join(0, 0), join(1, 2)}};
  EXPECT_EQ(run(made, trace, "ours").changes, 0);  // of the slow one nothing is gained
  trace.events[1].host = 1;
  EXPECT_EQ(run(made, trace, "ours").changes, 1);
  trace.head.change_s = 3600;
  EXPECT_EQ(run(made, trace, "ours").changes, 0);
}

TEST(SimulationTest, PricesMoveARunThatLooksAtCost) {
  auto made = small_cluster();
  made.profiles.devices[1] = testing::device_profile("slow", 1.1, 32, 1);
  Trace trace{.head = head_of(1.024e7), .events = {join(0, 0), join(0, 2)}};
  trace.events.push_back(
      {.hour = 1, .kind = TraceEventKind::kPrice, .host = 0, .type = "slow", .price = 0.1});
  const SimulateOptions by_cost{.policy = "ours", .cost_weight = 1};
  const auto moved = simulate(trace, made.cluster, made.profiles, 1, by_cost);
  EXPECT_EQ(moved.changes, 1);
  EXPECT_EQ(moved.points.back().devices, 1);
  const auto stayed = run(made, trace, "ours");
  EXPECT_EQ(stayed.changes, 0);
  EXPECT_LT(moved.cost, stayed.cost);
}

TEST(SimulationTest, WithoutDevicesItWaits) {
  const auto made = small_cluster();
  Trace trace{.head = head_of(1e12), .events = {join(10, 0)}};
  trace.events.push_back({.hour = 20, .kind = TraceEventKind::kFail, .host = 0});
  for (const auto* policy : {"fixed", "upstream", "ours"}) {
    const auto simulated = run(made, trace, policy);
    EXPECT_FALSE(simulated.is_done);
    EXPECT_EQ(simulated.hours, 100);
    EXPECT_NEAR(simulated.cost, 10 * 2, 1e-6);
    EXPECT_NEAR(simulated.idle_hours, 90 + 60 / 3600.0, 1e-6) << policy;
  }
  EXPECT_THROW(run(made, trace, "theirs"), ConfigError);
}

// Six days of 1,024 devices of four types with 2,000 events: a fifth of a month, in a fifth of the
// half minute that is there for one.
TEST(SimulationTest, AMonthOfAThousandDevicesTakesSeconds) {
  testing::SolveCase large;
  large.profiles.model = "vit";
  Trace trace{.head = head_of(1e15), .events = {}};
  trace.head.global_batch = 8192;
  trace.head.hours = 144;
  trace.head.epoch_samples = 1e9;
  for (int64_t k = 0; k < 4; ++k) {
    const auto kind = "kind" + std::to_string(k);
    large.profiles.devices.push_back(
        testing::device_profile(kind, 0.2 * static_cast<double>(k + 1), 16, 2));
    for (int64_t h = 0; h < 64; ++h) {
      large.cluster.hosts.push_back(
          testing::host_of(kind + "_" + std::to_string(h), kind, 4, 5 - static_cast<double>(k)));
    }
  }
  testing::add_network(large.profiles, 25, 0.3);
  std::mt19937_64 random(7);
  std::vector<bool> is_there(large.cluster.hosts.size(), false);
  for (int64_t i = 0; i < 2'000; ++i) {
    const auto host = static_cast<size_t>(random() % is_there.size());
    TraceEvent event{.hour = 0.072 * static_cast<double>(i), .host = host};
    if (is_there[host]) {
      event.kind = random() % 2 == 0 ? TraceEventKind::kFail : TraceEventKind::kLeave;
    }
    is_there[host] = !is_there[host];
    trace.events.push_back(event);
  }
  for (const auto* policy : {"fixed", "upstream", "ours"}) {
    const auto start = std::clock();  // of this process: others may be at work
    const auto simulated = simulate(trace, large.cluster, large.profiles, 4, {.policy = policy});
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 6) << policy;
    EXPECT_EQ(simulated.hours, 144);
    EXPECT_GT(simulated.samples, 0);
  }
}

}  // namespace
}  // namespace fovea::elastic
