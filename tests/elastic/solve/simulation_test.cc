#include "fovea/elastic/solve/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// All that are there work, in equal shares until they have been measured, then in those by speed,
// in which a step takes the solver's time; nothing is done twice.
TEST(SimulationTest, AnElasticRunTakesAllThatAreThere) {
  auto made = small_cluster();
  made.profiles.devices[1] = testing::device_profile("slow", 3, 32, 1);
  Trace trace{.head = head_of(1.024e7), .events = {join(0, 0), join(0, 1), join(0, 2)}};
  trace.head.restart_s = 0;
  const auto elastic = run(made, trace, "elastic");
  EXPECT_TRUE(elastic.is_done);
  EXPECT_EQ(elastic.points.front().devices, 5);
  WorkingSets sets(made.cluster, made.profiles, {.global_batch = 1024});
  const auto all = sets.all({true, true, true});
  const auto equal = sets.equal({true, true, true}, 0);
  EXPECT_LT(all.ms, 0.9 * equal.ms);
  const auto hours_with = [&](double equal_steps) {
    const double ms = equal_steps * equal.ms + (1e4 - equal_steps) * all.ms;
    return (ms + 1000 * trace.head.change_s) / 3.6e6;
  };
  EXPECT_NEAR(elastic.hours, hours_with(10 + 50), 1e-6 * elastic.hours);
  EXPECT_EQ(elastic.changes, 0);
  trace.head.shares_after = 300;
  EXPECT_NEAR(run(made, trace, "elastic").hours, hours_with(10 + 300), 1e-6 * elastic.hours);
  // It waits until that has cost what the change pauses.
  trace.head.change_s = 1000;
  const double worth_it = 1e6 / (equal.ms - all.ms);
  ASSERT_GT(worth_it, 300);
  EXPECT_NEAR(run(made, trace, "elastic").hours, hours_with(10 + worth_it), 1e-6 * elastic.hours);
  trace.head.change_s = 2;
  trace.head.shares_gain = 0.9;
  EXPECT_NEAR(run(made, trace, "elastic").hours, 1e4 * equal.ms / 3.6e6, 1e-6 * elastic.hours);
  trace.head.shares = "equal";
  EXPECT_NEAR(run(made, trace, "elastic").hours, 1e4 * equal.ms / 3.6e6, 1e-6 * elastic.hours);
  trace.head.other_ms = 50;
  EXPECT_NEAR(run(made, trace, "elastic").hours, 1e4 * (equal.ms + 50) / 3.6e6,
              1e-6 * elastic.hours);
  trace.events.push_back({.hour = 0.1, .kind = TraceEventKind::kFail, .host = 2});
  const auto failed = run(made, trace, "elastic");
  EXPECT_EQ(failed.lost_samples, 0);
  EXPECT_EQ(failed.changes, 1);
  EXPECT_NEAR(failed.idle_hours, 5 / 3600.0, 1e-9);
}

// Who stays is known: when one goes, the others take their shares at once.
TEST(SimulationTest, AnElasticRunKeepsWhatItKnowsOfThoseThatStay) {
  auto made = small_cluster();
  made.profiles.devices[1] = testing::device_profile("slow", 3, 32, 1);
  Trace trace{.head = head_of(1.024e7), .events = {join(0, 0), join(0, 1), join(0, 2)}};
  trace.head.restart_s = trace.head.change_s = 0;
  WorkingSets sets(made.cluster, made.profiles, {.global_batch = 1024});
  const auto three = sets.all({true, true, true}), two = sets.all({true, false, true});
  EXPECT_LT(two.ms, 0.9 * sets.equal({true, false, true}, 0).ms);
  trace.events.push_back({.hour = 0.1, .kind = TraceEventKind::kLeave, .host = 1});
  const auto simulated = run(made, trace, "elastic");
  const double lost = 60 * (sets.equal({true, true, true}, 0).ms - three.ms);
  const double steps = (0.1 * 3.6e6 - lost) / three.ms;
  EXPECT_NEAR(simulated.hours, 0.1 + (1e4 - steps) * two.ms / 3.6e6, 1e-6 * simulated.hours);
}

// Slots are never divided: of 8 slots three devices have 3, 3 and 2.
TEST(SimulationTest, SlotsAreNotDivided) {
  auto made = small_cluster();
  const std::vector<bool> present = {true, true, false};
  WorkingSets whole(made.cluster, made.profiles, {.global_batch = 1024});
  WorkingSets in_slots(made.cluster, made.profiles, {.global_batch = 1024, .slots = 6});
  EXPECT_GT(in_slots.all(present).ms, 1.2 * whole.all(present).ms);  // 2 of 6 in place of 1.5
  EXPECT_NEAR(in_slots.all(present).ms, in_slots.equal(present, 0).ms, 1e-6);
}

TEST(SimulationTest, PoliciesFollowBatchesBySamples) {
  const auto made = small_cluster();
  Trace trace{.head = head_of(1.024e7), .events = {join(0, 0)}};
  trace.head.restart_s = 0;
  const std::vector<bool> present = {true, false, false};
  WorkingSets sets(made.cluster, made.profiles, {.global_batch = 1024});
  const auto small = sets.all(present).ms;
  sets.set_global_batch(4096);
  const auto large = sets.all(present).ms;
  EXPECT_LT(large, 4 * small);
  trace.batches = {{0.24e7, 4096}};
  for (const auto* policy : {"ours", "elastic", "fixed"}) {
    const auto simulated = run(made, trace, policy);
    const double hours = (0.24e7 / 1024 * small + (1.024e7 - 0.24e7) / 4096 * large) / 3.6e6;
    EXPECT_NEAR(simulated.hours, hours, 1e-6 * hours) << policy;
  }
  EXPECT_TRUE(run(made, trace, "upstream").is_done);
}

TEST(SimulationTest, PoliciesFollowBatchesByTheHour) {
  const auto made = small_cluster();
  Trace trace{.head = head_of(1.024e7), .events = {join(0, 0)}};
  TraceEvent batch{.hour = 0.5, .kind = TraceEventKind::kBatch};
  batch.global_batch = 8192;
  trace.events.push_back(batch);
  for (const auto* policy : {"fixed", "upstream", "ours", "elastic"}) {
    const auto simulated = run(made, trace, policy);
    EXPECT_TRUE(simulated.is_done) << policy;
    const auto& points = simulated.points;
    EXPECT_GT(points.back().samples, 0);
    const auto faster = std::find_if(points.begin(), points.end(),
                                     [](const auto& point) { return point.hour >= 0.5; });
    ASSERT_NE(faster, points.end());
    EXPECT_GT(faster->images_per_second, points[1].images_per_second) << policy;
  }
}

}  // namespace
}  // namespace fovea::elastic
