#include "fovea/elastic/control/next_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace fovea::elastic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Identity kRun{"r", "d", "v"};

// etcd as far as a plan is concerned: what was decided is written, and members follow.
class World {
 public:
  explicit World(PlanOptions options) : options(options) {}

  void join(const std::string& name, const std::string& state = "ready") {
    PresentWorker worker{.name = name, .created = ++revision};
    worker.record.state = state;
    worker.record.identity = kRun;
    worker.record.store = {"host of " + name, 1, ""};
    situation.workers.push_back(worker);
  }
  void kill(const std::string& name) {
    std::erase_if(situation.workers, [&](const auto& worker) { return worker.name == name; });
  }
  PresentWorker& at(const std::string& name) {
    return *std::find_if(situation.workers.begin(), situation.workers.end(),
                         [&](const auto& worker) { return worker.name == name; });
  }
  void ask(Request request) {
    ++revision;
    situation.requests.push_back(
        {.id = std::to_string(revision), .created = revision, .request = std::move(request)});
  }
  // One look of the scheduler.
  NextPlan look() {
    auto next = next_plan(situation, options, kRun);
    if (next.plan) situation.plan = next.plan;
    if (next.plan && offers_anew) offer_anew();
    if (next.orders) situation.orders = next.orders;
    std::erase_if(situation.requests, [&](const auto& request) {
      return std::find(next.handled.begin(), next.handled.end(), request.id) != next.handled.end();
    });
    return next;
  }
  // As the first member does once a plan has its place to meet.
  void offer_anew() {
    for (auto& worker : situation.workers) {
      if (worker.record.store == situation.plan->store) worker.record.store.port += 1;
    }
  }
  // All members enter the plan at a step.
  void enter(int64_t step) {
    for (const auto& member : situation.plan->members) {
      auto& record = at(member.worker).record;
      record.generation = situation.plan->generation;
      record.step = step;
    }
  }
  std::vector<std::string> members() const {
    std::vector<std::string> names;
    if (situation.plan) {
      for (const auto& member : situation.plan->members) names.push_back(member.worker);
    }
    return names;
  }
  // Of the plan that holds now: one for a later step that nobody has entered is not yet.
  std::vector<std::string> members_now() const {
    if (!situation.plan || situation.plan->before.empty()) return members();
    const bool is_entered = std::any_of(
        situation.workers.begin(), situation.workers.end(),
        [&](const auto& worker) { return worker.record.generation >= situation.plan->generation; });
    if (is_entered) return members();
    std::vector<std::string> names;
    for (const auto& member : situation.plan->before.front().members) {
      names.push_back(member.worker);
    }
    return names;
  }
  const Plan& plan() const { return *situation.plan; }

  std::vector<std::string> leaving() const {
    std::vector<std::string> names;
    for (const auto& member : situation.plan->leaving) names.push_back(member.worker);
    return names;
  }

  PlanOptions options;
  Situation situation;
  int64_t revision = 0;
  bool offers_anew = true;
};

PlanOptions with_slots(int64_t slots, int64_t min_workers = 1) {
  return {.min_workers = min_workers, .global_batch = 256, .slots = slots};
}
Request scale(int64_t workers, int64_t at_step = -1) {
  Request request{.kind = "scale", .workers = workers};
  request.at_step = at_step;
  return request;
}
Request of_worker(const std::string& kind, const std::string& worker) {
  Request request{.kind = kind};
  request.worker = worker;
  return request;
}

TEST(NextPlanTest, WhoLeavesGivesWhatItHolds) {
  World world(with_slots(8));
  for (const auto* name : {"a", "b", "c"}) world.join(name);
  world.look();
  world.enter(10);
  for (auto& worker : world.situation.workers) worker.record.has_state = true;
  EXPECT_THAT(world.leaving(), IsEmpty());
  world.at("b").record.state = "leaving";
  world.kill("c");
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("a"));
  EXPECT_THAT(world.leaving(), ElementsAre("b"));
  EXPECT_EQ(world.plan().leaving.front().rank, 1);
  world.join("d");  // before it has given: it is still to
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("a", "d"));
  EXPECT_THAT(world.leaving(), ElementsAre("b"));
  EXPECT_EQ(world.plan().leaving.front().rank, 2);
  world.at("b").record.state = "ready";
  world.at("b").record.has_state = false;  // it has given, and would come again
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("a", "d", "b"));
  EXPECT_THAT(world.leaving(), IsEmpty());
  world.kill("b");
  world.look();
  world.ask(scale(1));
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("a"));
  EXPECT_THAT(world.leaving(), ElementsAre("d"));
}

TEST(NextPlanTest, WhoHangsGivesNothing) {
  World world(with_slots(8));
  for (const auto* name : {"a", "b"}) world.join(name);
  world.look();
  auto hang = of_worker("exclude", "b");
  hang.reason = "hang";
  hang.generation = world.plan().generation;
  world.ask(hang);
  EXPECT_EQ(world.look().plan->reason, "hang");
  EXPECT_THAT(world.members(), ElementsAre("a"));
  EXPECT_THAT(world.leaving(), IsEmpty());
}

TEST(NextPlanTest, MembersThatLostEachOtherMeetAgain) {
  World world(with_slots(8));
  for (const auto* name : {"a", "b"}) world.join(name);
  world.look();
  const auto before = world.plan();
  Request regroup{.kind = "regroup"};
  regroup.generation = before.generation;
  world.ask(regroup);
  world.ask(regroup);  // the other one asks as well
  const auto next = world.look();
  ASSERT_TRUE(next.plan);
  EXPECT_EQ(next.plan->reason, "network");
  EXPECT_EQ(next.plan->generation, before.generation + 1);
  EXPECT_NE(next.plan->store, before.store);
  EXPECT_THAT(world.members(), ElementsAre("a", "b"));
  world.ask(regroup);  // of the generation before: it has been done
  EXPECT_FALSE(world.look().plan);
}

TEST(NextPlanTest, APlaceToMeetIsForOneGeneration) {
  World world(with_slots(8));
  world.offers_anew = false;
  world.join("a");
  world.look();
  world.join("b");
  const auto waiting = world.look();
  EXPECT_FALSE(waiting.plan);
  EXPECT_THAT(waiting.missing, HasSubstr("a place to meet, of worker a"));
  world.offer_anew();
  ASSERT_TRUE(world.look().plan);
  EXPECT_THAT(world.members(), ElementsAre("a", "b"));
}

TEST(NextPlanTest, StartsJoinsAndBuriesInOrder) {
  World world(with_slots(8));
  EXPECT_FALSE(world.look().plan);
  world.join("b");
  world.join("a", "starting");
  EXPECT_EQ(world.look().plan->reason, "start");
  EXPECT_THAT(world.members(), ElementsAre("b"));
  EXPECT_EQ(world.plan().store.address, "host of b");
  world.at("a").record.state = "ready";
  world.join("c");
  EXPECT_EQ(world.look().plan->reason, "join");
  EXPECT_THAT(world.members(), ElementsAre("b", "a", "c"));
  EXPECT_EQ(world.plan().members[0].share, (ShareRecord{0, 2, 8}));
  EXPECT_EQ(world.plan().members[1].share, (ShareRecord{2, 5, 8}));
  EXPECT_EQ(world.plan().members[2].share, (ShareRecord{5, 8, 8}));
  EXPECT_EQ(world.plan().mesh.dp_replicate, 3);
  EXPECT_FALSE(world.look().plan);
  world.kill("b");
  EXPECT_EQ(world.look().plan->reason, "death");
  EXPECT_THAT(world.members(), ElementsAre("a", "c"));
  EXPECT_EQ(world.plan().generation, 3);
  EXPECT_EQ(world.plan().store.address, "host of a");
  world.at("a").record.state = "leaving";
  EXPECT_EQ(world.look().plan->reason, "leave");
  EXPECT_THAT(world.members(), ElementsAre("c"));
}

TEST(NextPlanTest, OneThatComesAgainIsAnotherOne) {
  World world(with_slots(0));
  world.join("a");
  world.join("b");
  world.look();
  world.kill("a");
  world.join("a");
  const auto next = world.look();
  EXPECT_EQ(next.plan->reason, "death");
  EXPECT_THAT(world.members(), ElementsAre("b", "a"));
  EXPECT_EQ(world.plan().members[1].share, (ShareRecord{1, 2, 2}));
}

TEST(NextPlanTest, TooFewPark) {
  World world(with_slots(8, 2));
  world.join("a");
  EXPECT_THAT(world.look().missing, HasSubstr("1 of at least 2 workers"));
  EXPECT_FALSE(world.situation.plan);
  world.join("b");
  world.look();
  world.kill("a");
  const auto parked = world.look();
  EXPECT_THAT(parked.missing, HasSubstr("elastic.min_workers=2"));
  EXPECT_THAT(parked.waiting, ElementsAre("b"));
  EXPECT_THAT(world.members(), IsEmpty());
  world.join("c");
  EXPECT_EQ(world.look().plan->reason, "join");
  EXPECT_THAT(world.members(), ElementsAre("b", "c"));
}

// As where a run that was stopped is begun again: how soon its workers come makes no generation.
TEST(NextPlanTest, NobodyAfterNobodyIsNoGeneration) {
  World world(with_slots(8));
  world.situation.plan = Plan{.generation = 6};
  world.ask(scale(1));
  const auto waiting = world.look();
  EXPECT_FALSE(waiting.plan);
  EXPECT_EQ(world.situation.orders->workers, 1);
  EXPECT_THAT(waiting.missing, HasSubstr("0 of at least 1 workers"));
  world.join("a");
  EXPECT_EQ(world.look().plan->reason, "start");
  EXPECT_EQ(world.plan().generation, 7);
  EXPECT_EQ(world.plan().slots, 8);
}

TEST(NextPlanTest, TheMeshKeepsTpAndCp) {
  PlanOptions options = with_slots(0);
  options.mesh = {.dp_replicate = 2, .dp_shard = 2, .cp = 1, .tp = 2};
  World world(options);
  for (const std::string name : {"a", "b", "c"}) world.join(name);
  EXPECT_THAT(world.look().missing, HasSubstr("3 of at least 4"));
  for (const std::string name : {"d", "e"}) world.join(name);
  EXPECT_THAT(world.look().waiting, ElementsAre("e"));
  EXPECT_EQ(world.plan().mesh, (MeshRecord{1, 2, 1, 2}));
  EXPECT_EQ(world.plan().members[0].share, world.plan().members[1].share);
  EXPECT_EQ(world.plan().members[2].share, (ShareRecord{1, 2, 2}));
  world.options.dp_shard_follows = true;
  world.join("f");
  world.look();
  EXPECT_EQ(world.plan().mesh, (MeshRecord{1, 3, 1, 2}));  // 3 are not divided by 2
  world.join("g");
  world.join("h");
  world.look();
  EXPECT_EQ(world.plan().mesh, (MeshRecord{2, 2, 1, 2}));
}

TEST(NextPlanTest, MoreWorkersThanSlotsWait) {
  World world(with_slots(2));
  for (const std::string name : {"a", "b", "c"}) world.join(name);
  EXPECT_THAT(world.look().waiting, ElementsAre("c"));
  EXPECT_THAT(world.members(), ElementsAre("a", "b"));
}

TEST(NextPlanTest, ScaleHoldsUntilItIsSaidOtherwise) {
  PlanOptions options = with_slots(8);
  options.max_workers = 1;
  World world(options);
  for (const std::string name : {"a", "b", "c"}) world.join(name);
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("a"));
  world.ask(scale(2));
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("a", "b"));
  EXPECT_THAT(world.situation.requests, IsEmpty());
  world.kill("a");
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("b", "c"));
  world.ask(scale(5));  // more than there are: no change, and no plan
  const auto more = world.look();
  EXPECT_FALSE(more.plan);
  EXPECT_EQ(more.orders->workers, 5);
  world.ask(scale(1));
  EXPECT_EQ(world.look().plan->reason, "leave");
  EXPECT_THAT(world.members(), ElementsAre("b"));  // the first one stays
}

// A batch that was asked for counts once: members may have come to another one behind it.
TEST(NextPlanTest, EachRequestForABatchMakesAPlan) {
  World world(with_slots(8));
  world.join("a");
  world.look();
  EXPECT_EQ(world.plan().global_batch, 256);
  EXPECT_EQ(world.plan().batch_request, "");
  Request batch{.kind = "batch"};
  batch.global_batch = 512;
  world.ask(batch);
  EXPECT_EQ(world.look().plan->reason, "batch");
  const auto first = world.plan();
  EXPECT_EQ(first.global_batch, 512);
  EXPECT_NE(first.batch_request, "");
  world.join("b");  // a plan for another reason asks for none
  EXPECT_EQ(world.look().plan->batch_request, first.batch_request);
  world.ask(batch);
  const auto next = world.look();
  ASSERT_TRUE(next.plan);
  EXPECT_EQ(next.plan->reason, "batch");
  EXPECT_EQ(next.plan->global_batch, 512);
  EXPECT_NE(next.plan->batch_request, first.batch_request);
}

TEST(NextPlanTest, WorkersAreAddedAndRemovedByName) {
  PlanOptions options = with_slots(8);
  options.max_workers = 2;
  World world(options);
  for (const std::string name : {"a", "b", "c", "d"}) world.join(name);
  world.look();
  world.ask(of_worker("add", "d"));
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("a", "b", "d"));
  world.ask(of_worker("remove", "a"));
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("b", "d"));  // c does not take its place
  EXPECT_FALSE(world.look().plan);
  world.kill("a");
  world.look();
  EXPECT_THAT(world.situation.orders->excluded, IsEmpty());
  world.ask(of_worker("remove", "nobody"));
  EXPECT_THAT(world.look().notes, ElementsAre(HasSubstr("nobody")));
}

TEST(NextPlanTest, AHungMemberIsExcludedUntilItRegistersAnew) {
  World world(with_slots(8));
  world.join("a");
  world.join("b");
  world.look();
  auto request = of_worker("exclude", "a");
  request.reason = "hang";
  request.generation = 7;
  world.ask(request);
  EXPECT_FALSE(world.look().plan);  // of another generation
  request.generation = 1;
  world.ask(request);
  EXPECT_EQ(world.look().plan->reason, "hang");
  EXPECT_THAT(world.members(), ElementsAre("b"));
  EXPECT_FALSE(world.look().plan);
  world.kill("a");
  world.join("a");
  world.look();
  EXPECT_THAT(world.members(), ElementsAre("b", "a"));
}

TEST(NextPlanTest, AStepThatWasAskedForIsPlannedAhead) {
  PlanOptions options = with_slots(8);
  options.max_workers = 1;
  World world(options);
  world.join("a");
  world.join("b");
  world.look();
  world.enter(5);
  world.ask(scale(2, 20));
  world.look();
  EXPECT_EQ(world.plan().from_step, 20);
  EXPECT_THAT(world.members(), ElementsAre("a", "b"));
  ASSERT_EQ(world.plan().before.size(), 1u);
  EXPECT_EQ(world.plan().before[0].members.size(), 1u);
  EXPECT_EQ(world.situation.requests.size(), 1u);
  EXPECT_FALSE(world.look().plan);
  // The one that was to come dies: what was asked for is void, until another one is there.
  world.kill("b");
  world.look();
  EXPECT_EQ(world.plan().from_step, -1);
  EXPECT_THAT(world.members(), ElementsAre("a"));
  world.join("c");
  world.look();
  EXPECT_EQ(world.plan().from_step, 20);
  EXPECT_THAT(world.members(), ElementsAre("a", "c"));
  // Entered: it is done with, and holds.
  world.enter(20);
  const auto entered = world.look();
  EXPECT_EQ(entered.handled.size(), 1u);
  EXPECT_FALSE(entered.plan);
  EXPECT_EQ(world.situation.orders->workers, 2);
  EXPECT_FALSE(world.look().plan);
  world.ask(scale(1, 10));  // passed already: at once
  world.look();
  EXPECT_EQ(world.plan().from_step, -1);
  EXPECT_THAT(world.members(), ElementsAre("a"));
}

TEST(NextPlanTest, ADeathDoesNotWaitForAStep) {
  World world(with_slots(8));
  world.join("a");
  world.join("b");
  world.look();
  world.ask(of_worker("remove", "a"));
  world.situation.requests[0].request.at_step = 20;
  world.look();
  EXPECT_EQ(world.plan().from_step, 20);
  world.kill("b");
  const auto now = world.look();
  EXPECT_EQ(now.plan->reason, "death");
  EXPECT_EQ(now.plan->from_step, -1);
  EXPECT_THAT(world.members(), ElementsAre("a"));
}

TEST(NextPlanTest, AStopIsTheLastThing) {
  World world(with_slots(8));
  world.join("a");
  world.join("b");
  world.look();
  world.ask({.kind = "stop"});
  EXPECT_EQ(world.look().plan->reason, "stop");
  EXPECT_EQ(world.plan().ends, "stop");
  EXPECT_THAT(world.members(), ElementsAre("a", "b"));
  world.join("c");
  EXPECT_FALSE(world.look().plan);
  world.kill("b");  // before it was saved
  EXPECT_EQ(world.look().plan->reason, "death");
  EXPECT_EQ(world.plan().ends, "stop");
  world.situation.commit = Commit{.generation = 3};
  world.kill("a");
  EXPECT_FALSE(world.look().plan);
}

TEST(NextPlanTest, ADoneRunEnds) {
  World world(with_slots(8));
  world.join("a");
  world.look();
  Commit commit{.generation = 1};
  commit.is_done = true;
  world.situation.commit = commit;
  EXPECT_EQ(world.look().plan->ends, "done");
  world.kill("a");
  EXPECT_FALSE(world.look().plan);
}

TEST(NextPlanTest, AWorkerOfAnotherRunIsNamed) {
  World world(with_slots(8));
  world.join("a");
  world.join("b");
  world.at("b").record.identity.data = "other";
  EXPECT_THAT(world.look().missing,
              HasSubstr("worker b is of another run: data: 'other' here, 'd'"));
  EXPECT_THAT(world.members(), ElementsAre("a"));
  // Where the run does not say what data it has, its first worker does.
  const auto next = next_plan(world.situation, world.options, {"r", "", "v"});
  EXPECT_EQ(next.data, "d");
  EXPECT_FALSE(next.plan);
}

void check_invariants(const World& world, const std::vector<std::string>& before) {
  const auto& plan = world.plan();
  const auto& options = world.options;
  const auto count = static_cast<int64_t>(plan.members.size());
  ASSERT_TRUE(count == 0 || count >= options.min_workers);
  const auto& mesh = plan.mesh;
  if (count > 0) {
    ASSERT_EQ(mesh.dp_replicate * mesh.dp_shard * mesh.cp * mesh.tp, count);
    ASSERT_EQ(plan.members.front().share.first, 0);
    ASSERT_EQ(plan.members.back().share.last, plan.members.back().share.of);
  }
  ASSERT_EQ(mesh.tp, options.mesh.tp);
  ASSERT_EQ(mesh.cp, options.mesh.cp);
  int64_t least = plan.global_batch, most = 0, rows = 0;
  std::vector<std::string> stayed;
  for (int64_t rank = 0; rank < count; ++rank) {
    const auto& member = plan.members[static_cast<size_t>(rank)];
    ASSERT_EQ(member.rank, rank);
    const auto size = member.share.last - member.share.first;
    least = std::min(least, size);
    most = std::max(most, size);
    if (rank % (mesh.tp * mesh.cp) == 0) rows += member.share.rows(plan.global_batch);
    if (std::find(before.begin(), before.end(), member.worker) != before.end()) {
      stayed.push_back(member.worker);
    }
  }
  if (count > 0) {
    ASSERT_LE(most - least, 1);  // as equal as can be
    ASSERT_EQ(rows, plan.global_batch);
  }
  // Those that stay keep their order, in front.
  auto expected = before;
  std::erase_if(expected, [&](const auto& name) {
    return std::find(stayed.begin(), stayed.end(), name) == stayed.end();
  });
  ASSERT_EQ(stayed, expected);
}

TEST(NextPlanTest, RandomHistoriesKeepTheRules) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t count) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  };
  for (int history = 0; history < 40; ++history) {
    const auto slots = draw(2) * 8;
    PlanOptions options = with_slots(slots, 1 + draw(3));
    options.mesh.tp = 1 + draw(2);
    options.mesh.dp_shard = 1 + draw(2);
    options.dp_shard_follows = draw(2) == 1;
    World world(options);
    int names = 0;
    int64_t step = 0, generation = 0;
    for (int event = 0; event < 40; ++event) {
      const auto before = world.members_now();
      const auto count = static_cast<int64_t>(world.situation.workers.size());
      const auto some =
          count == 0 ? "" : world.situation.workers[static_cast<size_t>(draw(count))].name;
      const auto at_step = draw(3) == 0 ? step + draw(20) : -1;
      switch (draw(8)) {
        case 0:
        case 1:
        case 2:
          world.join("w" + std::to_string(names++));
          break;
        case 3:
          world.kill(some);
          break;
        case 4:
          if (count > 0) world.at(some).record.state = "leaving";
          break;
        case 5:
          world.ask(scale(draw(6), at_step));
          break;
        case 6:
          world.ask(of_worker("remove", some));
          break;
        default:
          world.ask(of_worker("add", some));
          world.situation.requests.back().request.at_step = at_step;
      }
      const auto next = world.look();
      if (next.plan) {
        ASSERT_EQ(next.plan->generation, ++generation);
        const auto& plan = *next.plan;
        // What has no reason is no change.
        if (plan.before.empty() && !before.empty()) {
          for (const auto& member : plan.members) {
            ASSERT_EQ(world.at(member.worker).created, member.created);
            ASSERT_EQ(world.at(member.worker).record.state, "ready");
          }
        }
      }
      // A step that was asked for is planned behind a change that could not wait; then all is
      // still.
      const auto there = world.situation.plan;
      const auto later = world.look();
      if (later.plan) {
        ASSERT_GE(later.plan->from_step, 0) << to_json(*there) << "\n" << to_json(*later.plan);
        ASSERT_EQ(later.plan->generation, ++generation);
        ASSERT_FALSE(world.look().plan) << "a plan without a change: " << to_json(world.plan());
      }
      if (!world.situation.plan) continue;
      const bool waits = !world.plan().before.empty();
      check_invariants(world, waits ? std::vector<std::string>() : before);
      step += draw(5);
      const bool is_due = world.plan().from_step <= step;
      const bool is_whole = std::all_of(
          world.plan().members.begin(), world.plan().members.end(), [&](const auto& member) {
            return std::any_of(world.situation.workers.begin(), world.situation.workers.end(),
                               [&](const auto& worker) { return worker.name == member.worker; });
          });
      if (is_due && is_whole) world.enter(step);
    }
  }
}

}  // namespace
}  // namespace fovea::elastic
