#include "fovea/elastic/device_adviser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "tests/elastic/solve/solve_cases.h"
#include "tests/support/temp_dir.h"

namespace fovea::elastic {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A run of workers on hosts of their own.
class AdvisedRun {
 public:
  explicit AdvisedRun(double cost_weight = 0, bool is_applied = true) {
    profiles_.source = "profiles";
    profiles_.model = "vit";
    profiles_.devices = {testing::device_profile("fast", 1, 32, 1),
                         testing::device_profile("slow", 1.2, 32, 1)};
    testing::add_network(profiles_, 5, 0.1);
    Cluster cluster;
    for (const std::string name : {"a", "b", "c"}) {
      cluster.hosts.push_back(testing::host_of("of " + name, "fast", 1, name == "c" ? 50 : 1));
    }
    adviser = std::make_unique<DeviceAdviser>(profiles_, cluster, cost_weight, is_applied);
    options.global_batch = 1024;
  }

  void join(const std::string& name, const std::string& device = "fast") {
    const auto count = static_cast<int64_t>(situation.workers.size()) + 1;
    PresentWorker worker{.name = name, .created = count};
    worker.record.state = "ready";
    worker.record.host = "of " + name;
    worker.record.device = device;
    worker.record.pause_s = 0.5;
    worker.record.store = {"h", count, ""};
    situation.workers.push_back(worker);
  }
  Advice look(double later_s) {
    now_s += later_s;
    auto advice = adviser->look(situation, options, now_s);
    situation.chosen = advice.members;
    return advice;
  }
  void follow() {
    if (auto next = next_plan(situation, options, {}); next.plan) situation.plan = next.plan;
    for (auto& worker : situation.workers) {
      worker.record.generation = situation.plan->generation;
      if (worker.record.store == situation.plan->store) worker.record.store.port += 100;
    }
  }
  std::vector<std::string> members() const {
    std::vector<std::string> names;
    for (const auto& member : situation.plan->members) names.push_back(member.worker);
    return names;
  }

  std::unique_ptr<DeviceAdviser> adviser;
  Situation situation;
  PlanOptions options;
  double now_s = 10;

 private:
  ProfileSet profiles_;
};

TEST(DeviceAdviserTest, WhoComesIsTakenOnceThatPays) {
  AdvisedRun run;
  run.join("a");
  run.look(0);
  run.follow();
  EXPECT_THAT(run.members(), ElementsAre("a"));
  run.join("b");
  auto advice = run.look(0.1);  // too little is known of how long they stay
  EXPECT_THAT(advice.proposal.take, ElementsAre("b"));
  EXPECT_FALSE(advice.proposal.is_worth_it);
  EXPECT_THAT(advice.proposal.reason, AllOf(HasSubstr("take b"), HasSubstr("is not worth")));
  run.follow();
  EXPECT_THAT(run.members(), ElementsAre("a"));
  advice = run.look(60);
  EXPECT_TRUE(advice.proposal.is_worth_it);
  EXPECT_LT(advice.proposal.then_ms, 0.7 * advice.proposal.now_ms);
  EXPECT_EQ(advice.proposal.then_price, 2);
  run.follow();
  EXPECT_THAT(run.members(), ElementsAre("a", "b"));
  advice = run.look(10);
  EXPECT_THAT(advice.proposal.take, IsEmpty());
  EXPECT_THAT(advice.proposal.drop, IsEmpty());
  EXPECT_FALSE(advice.proposal.is_worth_it);
  run.situation.workers.erase(run.situation.workers.begin());  // at once, whatever it takes
  EXPECT_THAT(*run.look(0.1).members, ElementsAre(Registration{"b", 2}));
}

// c costs fifty times as much as another one.
TEST(DeviceAdviserTest, AMemberThatCostsMoreThanItBringsIsLeftOut) {
  AdvisedRun run(1);
  for (const auto* name : {"a", "b", "c"}) run.join(name);
  run.follow();
  EXPECT_THAT(run.members(), ElementsAre("a", "b", "c"));
  run.look(0);
  const auto advice = run.look(600);
  EXPECT_THAT(advice.proposal.drop, Contains(std::string("c")));
  EXPECT_TRUE(advice.proposal.is_worth_it);
  run.follow();
  EXPECT_EQ(run.situation.plan->reason, "leave");
  EXPECT_THAT(run.members(), Not(Contains(std::string("c"))));
  EXPECT_EQ(run.situation.plan->leaving.size(), 3 - run.members().size());
}

// Measured at eight times its profile, with shares by speed: what it brings is less than what
// talking to one more takes.
TEST(DeviceAdviserTest, AMemberFarSlowerThanItsProfileIsADeviceOfItsOwn) {
  AdvisedRun run;
  run.join("a");
  run.join("b");
  run.look(0);
  run.follow();
  const auto before = run.look(300).proposal.now_ms;
  auto& slow = run.situation.workers[1].record;
  const auto rows = run.situation.plan->members[1].share.rows(1024);
  slow.timed_steps = 32;
  slow.row_ms =
      8 * *run.adviser->profile_ms(run.situation.workers[1], rows) / static_cast<double>(rows);
  const auto after = run.look(300).proposal;
  EXPECT_GT(after.now_ms, 1.5 * before);
  slow.row_ms *= 1.1;  // within what was said: nothing new
  EXPECT_EQ(run.look(3).proposal.now_ms, after.now_ms);
}

TEST(DeviceAdviserTest, WithoutAProfileAllTakePart) {
  AdvisedRun run;
  run.join("a");
  run.join("x", "abacus");
  const auto advice = run.look(0);
  EXPECT_FALSE(advice.members);
  EXPECT_THAT(advice.proposal.reason,
              AllOf(HasSubstr("worker x is a 'abacus'"), HasSubstr("profiles")));
  run.follow();
  EXPECT_THAT(run.members(), ElementsAre("a", "x"));
}

TEST(DeviceAdviserTest, ARunNeedsItsLeastWorkers) {
  AdvisedRun run(1);
  for (const auto* name : {"a", "b", "c"}) run.join(name);
  run.options.min_workers = 3;
  run.look(0);
  run.look(600);
  run.follow();
  EXPECT_THAT(run.members(), ElementsAre("a", "b", "c"));
}

TEST(DeviceAdviserTest, RecipesSayWhatIsWeighed) {
  train::ElasticConfig config;
  EXPECT_EQ(make_adviser(config, 1), nullptr);
  config.objective = "speed";
  EXPECT_THROW(make_adviser(config, 1), ConfigError);
  config.objective = "0.5";
  config.profile_dir = "/nowhere";
  EXPECT_THROW(make_adviser(config, 1), DataError);
  config.propose = "off";
  EXPECT_EQ(make_adviser(config, 1), nullptr);
}

// Times are those of passes as the run takes them: one after another, so many at once, or `auto`.
TEST(DeviceAdviserTest, PassesAtOnceCountWhereTheRunTakesThem) {
  const support::TempDir dir;
  ProfileSet profiles{.source = "profiles", .model = "vit"};
  profiles.devices = {testing::device_profile("fast", 1, 8, 1)};
  auto& device = profiles.devices.front();
  device.memory = {{.local_batch = 8, .max_concurrent = 2}};
  device.computation = {
      {.local_batch = 8, .concurrent = 1, .forward_ms = 4, .backward_ms = 6, .update_ms = 1},
      {.local_batch = 8, .concurrent = 2, .forward_ms = 5, .backward_ms = 7, .update_ms = 1}};
  testing::add_network(profiles, 5, 0.1);
  write_profiles(profiles, dir.path());
  train::ElasticConfig config;
  config.profile_dir = dir.path();
  PresentWorker worker{.name = "a"};
  worker.record.device = "fast";
  const auto ms = [&](std::optional<int64_t> passes) {
    return make_adviser(config, passes)->profile_ms(worker, 16).value();
  };
  EXPECT_EQ(ms(1), 21);
  EXPECT_EQ(ms(2), 13);
  EXPECT_EQ(ms(std::nullopt), 13);
  EXPECT_EQ(ms(3), 21);  // was not measured
}

}  // namespace
}  // namespace fovea::elastic
