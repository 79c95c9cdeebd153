#include "fovea/elastic/solve/choice.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/elastic/solve/solve_cases.h"

namespace fovea::elastic {
namespace {

TEST(ChoiceTest, PredictedBatchesGoOnAsTheyWent) {
  EXPECT_EQ(predicted_batch({}, 5), 0);
  EXPECT_EQ(predicted_batch({{0, 64}}, 1e9), 64);
  const std::vector<BatchPoint> doubling = {{0, 64}, {1000, 128}, {2000, 256}};
  EXPECT_EQ(predicted_batch(doubling, 2000), 256);
  EXPECT_EQ(predicted_batch(doubling, 2500), 362);  // a root of 2 more
  EXPECT_EQ(predicted_batch(doubling, 3000), 512);
  EXPECT_EQ(predicted_batch(doubling, 1e9), 1024);  // four times at most
  EXPECT_EQ(predicted_batch({{0, 256}, {1000, 128}}, 2000), 64);
  EXPECT_EQ(predicted_batch({{10, 256}, {10, 128}}, 2000), 128);  // no time between them
}

testing::SolveCase fast_and_slow() {
  testing::SolveCase made;
  made.profiles.model = "vit";
  made.profiles.devices = {testing::device_profile("fast", 1, 32, 1),
                           testing::device_profile("slow", 2, 32, 1)};
  made.cluster.hosts = {testing::host_of("a", "fast", 1, 1), testing::host_of("b", "slow", 1, 1)};
  testing::add_network(made.profiles, 5, 8);
  return made;
}

WorkingSet only_first(WorkingSets& sets) { return sets.all({true, false}); }

TEST(ChoiceTest, AChangeIsMadeWhereItGainsMoreThanItTakes) {
  auto made = fast_and_slow();
  WorkingSets sets(made.cluster, made.profiles, {.global_batch = 1024});
  const auto working = only_first(sets);
  const std::vector<bool> present = {true, true};
  const auto change = choose_ours(sets, present, working, false, {.hours = 1, .pause_s = 2});
  EXPECT_TRUE(change.changes);
  EXPECT_EQ(change.set.devices, 2);
  EXPECT_LT(change.objective_then, change.objective_now);
  EXPECT_FALSE(choose_ours(sets, present, working, false, {.hours = 1, .pause_s = 7200}).changes);
  EXPECT_FALSE(choose_ours(sets, present, working, false, {.hours = 0, .pause_s = 2}).changes);
  EXPECT_TRUE(choose_ours(sets, present, working, true, {.hours = 0, .pause_s = 2}).changes);
  EXPECT_TRUE(choose_ours(sets, present, {}, false, {.hours = 0, .pause_s = 2}).changes);
}

// With a batch as it is the second device only costs time on the network; with the batches that
// are on their way it is worth it.
TEST(ChoiceTest, BatchesThatAreAheadCount) {
  auto made = fast_and_slow();
  WorkingSets sets(made.cluster, made.profiles, {.global_batch = 16});
  const auto working = only_first(sets);
  const std::vector<bool> present = {true, true};
  Horizon horizon{.hours = 1, .pause_s = 2};
  EXPECT_FALSE(choose_ours(sets, present, working, false, horizon).changes);
  horizon.batches = {{0, 4}, {1000, 8}, {2000, 16}};
  horizon.samples = 2000;
  const auto change = choose_ours(sets, present, working, false, horizon);
  EXPECT_TRUE(change.changes);
  EXPECT_EQ(change.set.devices, 2);
  EXPECT_EQ(sets.global_batch(), 16);
}

TEST(ChoiceTest, PricesCount) {
  auto made = fast_and_slow();
  made.cluster.hosts[1].config.price_per_hour = 100;
  WorkingSets sets(made.cluster, made.profiles, {.global_batch = 1024, .cost_weight = 1});
  const auto both = sets.all({true, true});
  const auto change = choose_ours(sets, {true, true}, both, false, {.hours = 1, .pause_s = 2});
  EXPECT_TRUE(change.changes);
  EXPECT_EQ(change.set.devices, 1);
  EXPECT_EQ(sets.price_of(change.set), 1);
}

}  // namespace
}  // namespace fovea::elastic
