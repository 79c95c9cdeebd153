#include "fovea/elastic/control/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fovea/elastic/control/step_times.h"

namespace fovea::elastic {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

double longest_of(const std::vector<int64_t>& parts, const std::vector<double>& ms) {
  double longest = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    longest = std::max(longest, static_cast<double>(parts[i]) * ms[i]);
  }
  return longest;
}

// Every way to hand out so many parts, at least one each.
double least_by_trying(const std::vector<double>& ms, int64_t parts) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int64_t> given(ms.size(), 1);
  const std::function<void(size_t, int64_t)> hand_out = [&](size_t place, int64_t left) {
    if (place + 1 == ms.size()) {
      given[place] = left;
      best = std::min(best, longest_of(given, ms));
      return;
    }
    const auto behind = static_cast<int64_t>(ms.size() - place - 1);
    for (given[place] = 1; given[place] <= left - behind; ++given[place]) {
      hand_out(place + 1, left - given[place]);
    }
  };
  hand_out(0, parts);
  return best;
}

TEST(SharesTest, TheLongestPartIsTheShortestThereIs) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> ms(1 + random() % 4);
    for (auto& one : ms) one = std::exp(static_cast<double>(random() % 1000) / 250);
    const auto parts = static_cast<int64_t>(ms.size() + random() % 12);
    const auto found = parts_by_speed(ms, parts);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), int64_t{0}), parts);
    EXPECT_GE(*std::min_element(found.begin(), found.end()), 1);
    EXPECT_NEAR(longest_of(found, ms), least_by_trying(ms, parts), 1e-9) << round;
  }
  EXPECT_THAT(parts_by_speed({1, 3}, 16), ElementsAre(12, 4));
  EXPECT_THAT(parts_by_speed({1, 1000, 1}, 7), ElementsAre(3, 1, 3));
  EXPECT_THAT(equal_parts(3, 8), ElementsAre(2, 3, 3));
}

TEST(SharesTest, PartsBecomeRangesOneBehindTheOther) {
  EXPECT_THAT(shares_of_parts({12, 4}),
              ElementsAre(ShareRecord{0, 12, 16}, ShareRecord{12, 16, 16}));
  EXPECT_THAT(shares_of_parts(equal_parts(3, 3)),
              ElementsAre(ShareRecord{0, 1, 3}, ShareRecord{1, 2, 3}, ShareRecord{2, 3, 3}));
}

TEST(SharesTest, WhoIsNotKnownIsLikeTheOthers) {
  PlanOptions options{.slots = 12};
  EXPECT_THAT(fitting_parts({0, 0}, 12, options), ElementsAre(6, 6));
  EXPECT_THAT(fitting_parts({1, 5, 0}, 12, options), ElementsAre(4, 4, 4));  // it is off
  options.shares_by_speed = true;
  EXPECT_THAT(fitting_parts({0, 0}, 12, options), ElementsAre(6, 6));
  EXPECT_THAT(fitting_parts({1, 5, 0}, 12, options), ElementsAre(9, 1, 2));
  EXPECT_THAT(fitting_parts({1, 1.05, 1}, 120, options), ElementsAre(40, 40, 40));
}

TEST(SharesTest, TimesAreMeansWithoutTheFirstSteps) {
  StepTimes times;
  WorkerRecord record;
  times.add(8, 100, 0);
  times.add(8, 100, 0);
  times.tell(record);
  EXPECT_EQ(record.timed_steps, 0);
  for (int step = 0; step < 100; ++step) times.add(step % 2 == 0 ? 8 : 4, 0.5, 0.2);
  times.tell(record);
  EXPECT_EQ(record.timed_steps, 32);
  EXPECT_THAT(record.row_ms, DoubleNear(300.0 / 6, 1e-9));
  EXPECT_THAT(record.comm_ms, DoubleNear(200, 1e-9));
  times.start();
  times.tell(record);
  EXPECT_EQ(record.timed_steps, 0);
}

// A run whose members have speeds, as a leader sees it: it looks every few steps, writes what it
// finds, and members follow.
class SharedRun {
 public:
  SharedRun(std::vector<double> row_ms, int64_t slots, int64_t batch = 64)
      : row_ms(std::move(row_ms)),
        options{.global_batch = batch, .slots = slots, .shares_by_speed = true} {
    for (size_t i = 0; i < this->row_ms.size(); ++i) add();
    plan();
    enter();
  }

  void add() {
    const auto count = static_cast<int64_t>(situation.workers.size());
    PresentWorker worker{.name = std::string(1, static_cast<char>('a' + count)),
                         .created = count + 1};
    worker.record.state = "ready";
    worker.record.store = {"h", 1 + count, ""};
    situation.workers.push_back(worker);
  }
  void plan() {
    auto next = next_plan(situation, options, {});
    if (!next.plan) return;
    situation.plan = next.plan;
    for (auto& worker : situation.workers) {
      if (worker.record.store == situation.plan->store) worker.record.store.port += 100;
    }
  }
  void enter() {
    for (auto& worker : situation.workers) {
      worker.record.generation = situation.plan->generation;
      worker.record.pause_s = pause_s;
      worker.record.timed_steps = 0;
    }
    timed_ = 0;
  }
  // ms of each member's own part.
  std::vector<double> own_ms() const {
    std::vector<double> all;
    for (size_t i = 0; i < situation.plan->members.size(); ++i) {
      const auto rows = situation.plan->members[i].share.rows(options.global_batch);
      all.push_back(fixed_ms + static_cast<double>(rows) * row_ms[i]);
    }
    return all;
  }
  double step_ms() const {
    const auto all = own_ms();
    return *std::max_element(all.begin(), all.end());
  }
  std::vector<int64_t> rows() const {
    std::vector<int64_t> all;
    for (const auto& member : situation.plan->members) {
      all.push_back(member.share.rows(options.global_batch));
    }
    return all;
  }

  // Some steps, then a look -> whether shares changed. noise: factor of each worker's mean.
  bool go(
      int64_t steps, const std::function<double()>& noise = [] { return 1.0; }) {
    const auto own = own_ms();
    const double ms = step_ms() + exchange_ms;
    timed_ += steps;
    step += steps;
    now_s += static_cast<double>(steps) * ms / 1000;
    for (size_t i = 0; i < own.size(); ++i) {
      auto& record = situation.workers[i].record;
      const double mine = own[i] * noise();
      record.step = step;
      record.timed_steps = std::min<int64_t>(timed_, 32);
      record.row_ms = mine / static_cast<double>(rows()[i]);
      record.comm_ms = std::max(exchange_ms, ms - mine);
    }
    situation.shares = watch.look(situation, options, now_s);
    const auto before = situation.plan->generation;
    plan();
    situation.shares = {};
    if (situation.plan->generation == before) return false;
    enter();
    return true;
  }

  std::vector<double> row_ms;
  PlanOptions options;
  Situation situation;
  ShareWatch watch;
  double pause_s = 0.2, fixed_ms = 0, exchange_ms = 1, now_s = 100;
  int64_t step = 0;

 private:
  int64_t timed_ = 0;
};

TEST(SharesTest, AThirdOfTheSpeedIsFoundAndTheStepHalved) {
  SharedRun run({1, 3}, 16);
  EXPECT_THAT(run.rows(), ElementsAre(32, 32));
  const double equal = run.step_ms();
  while (!run.go(5)) ASSERT_LT(run.step, 200);
  EXPECT_EQ(run.situation.plan->reason, "shares");
  EXPECT_THAT(run.rows(), ElementsAre(48, 16));
  EXPECT_EQ(run.step_ms(), 0.5 * equal);
  const auto& why = run.situation.plan->shares.front();
  EXPECT_NEAR(why.measured_ms, 97, 1e-9);
  EXPECT_NEAR(why.expected_ms, 49, 1e-9);
  ASSERT_EQ(run.situation.plan->measured.size(), 2U);
  EXPECT_NEAR(run.situation.plan->measured[1].own_ms, 96, 1e-9);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(run.go(5)) << i;
}

TEST(SharesTest, WithoutSlotsSharesAreWholeRows) {
  SharedRun run({1, 3}, 0, 50);
  while (!run.go(5)) ASSERT_LT(run.step, 200);
  EXPECT_THAT(run.rows(), ElementsAre(38, 12));
}

// What does not go with the rows is no speed: it takes a few changes, each further apart, and ends.
TEST(SharesTest, FixedPartsEndInEqualTimes) {
  SharedRun run({1, 3}, 64);
  run.fixed_ms = 20;
  int changes = 0;
  for (int i = 0; i < 1000; ++i) changes += run.go(5) ? 1 : 0;
  EXPECT_LE(changes, 3);
  const auto own = run.own_ms();
  EXPECT_NEAR(own[0], own[1], 0.15 * own[0]);
}

TEST(SharesTest, NoiseChangesNothing) {
  SharedRun run({1, 1.02}, 16);
  std::mt19937_64 random(3);
  std::normal_distribution<double> draw(1, 0.08);
  for (int i = 0; i < 2000; ++i) EXPECT_FALSE(run.go(5, [&] { return draw(random); }));
}

// A member that is slow every other hour of steps: waiting before each change doubles.
TEST(SharesTest, SpeedsThatGoToAndFroDoNotMakeSharesFlap) {
  SharedRun run({1, 1}, 16);
  int changes = 0;
  for (int i = 0; i < 4000; ++i) {
    run.row_ms[1] = i / 30 % 2 == 0 ? 1 : 3;  // 150 steps each
    changes += run.go(5) ? 1 : 0;
  }
  EXPECT_LE(changes, 8);
}

TEST(SharesTest, AGainHasToPayForThePause) {
  SharedRun run({1, 3}, 16);
  run.pause_s = 20;
  run.enter();
  const double began_s = run.now_s;
  while (!run.go(5)) ASSERT_LT(run.now_s, began_s + 60);
  EXPECT_GT(run.now_s, began_s + 40);  // half of which was lost
}

// Who stays keeps what is known of it when others come and go.
TEST(SharesTest, OthersThatComeFindTheSlowOneKnown) {
  SharedRun run({1, 3}, 16);
  while (!run.go(5)) ASSERT_LT(run.step, 200);
  run.go(10);
  run.row_ms.push_back(1);
  run.add();
  run.situation.workers.back().record.has_state = false;
  run.plan();
  EXPECT_EQ(run.situation.plan->reason, "join");
  const auto rows = run.rows();  // the new one as the mean of 1 and 3
  EXPECT_GT(rows[0], rows[1]);
  EXPECT_GE(rows[2], rows[1]);
  EXPECT_EQ(rows[0] + rows[1] + rows[2], 64);
  run.situation.workers.erase(run.situation.workers.begin() + 1);
  run.situation.plan->members[0].share = {0, 1, 2};
  run.plan();
  EXPECT_EQ(run.situation.plan->reason, "death");
}

TEST(SharesTest, TheyStayWhileTheMembersStay) {
  SharedRun run({1, 3}, 16);
  while (!run.go(5)) ASSERT_LT(run.step, 200);
  Request request{.kind = "batch"};
  request.global_batch = 128;
  run.situation.requests.push_back({.id = "x", .created = 99, .request = request});
  run.plan();
  EXPECT_EQ(run.situation.plan->reason, "batch");
  EXPECT_THAT(run.situation.plan->members[0].share, (ShareRecord{0, 12, 16}));
}

TEST(SharesTest, WithoutAMeasurementOfEachNothingChanges) {
  SharedRun run({1, 3}, 16);
  run.go(20);
  run.situation.workers[1].record.timed_steps = 3;
  for (int i = 0; i < 50; ++i) {
    run.step += 10;
    for (auto& worker : run.situation.workers) worker.record.step = run.step;
    EXPECT_FALSE(run.watch.look(run.situation, run.options, 1000 + i));
  }
  run.options.shares_by_speed = false;
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(run.go(10));
}

TEST(SharesTest, AProfileIsSetBesideWhatWasMeasured) {
  SharedRun run({1, 3}, 16);
  const auto predict = [](const PresentWorker& worker, int64_t rows) {
    EXPECT_EQ(worker.name, "b");
    return std::optional<double>(1.5 * static_cast<double>(rows));
  };
  std::optional<ShareChange> change;
  for (int i = 0; i < 40 && !change; ++i) {
    run.step += 5;
    run.now_s += 1;
    for (size_t worker = 0; worker < 2; ++worker) {
      auto& record = run.situation.workers[worker].record;
      record.step = run.step;
      record.timed_steps = 20;
      record.row_ms = run.row_ms[worker];
    }
    change = run.watch.look(run.situation, run.options, run.now_s, predict);
  }
  ASSERT_TRUE(change);
  EXPECT_EQ(change->reason.profile_ms, 48);
}

}  // namespace
}  // namespace fovea::elastic
