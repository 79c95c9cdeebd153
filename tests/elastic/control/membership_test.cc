// Leases, elections, memberships and the fence, on an etcd of their own.
#include "fovea/elastic/control/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "fovea/elastic/control/election.h"
#include "fovea/elastic/control/plan_watch.h"
#include "tests/elastic/control/etcd_support.h"

namespace fovea::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

class MembershipTest : public testing::EtcdTest {
 protected:
  static bool comes_true(const std::function<bool()>& condition) {
    for (int i = 0; i < 800; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(50));
    }
    return false;
  }
  const RunKeys keys{"r"};
};

TEST_F(MembershipTest, AWorkerIsThereWhileItLives) {
  WorkerRecord record{.host = "h", .device = "cpu"};
  {
    Membership worker(client(), keys, "w", record);
    const auto key = client().get(keys.worker("w"));
    ASSERT_TRUE(key);
    EXPECT_EQ(key->create_revision, worker.registration().created);
    record.state = "ready";
    worker.update(record);
    EXPECT_TRUE(comes_true([&] {
      return from_json<WorkerRecord>(client().get(keys.worker("w"))->value, "key") == record;
    }));
    EXPECT_EQ(client().get(keys.worker("w"))->create_revision, worker.registration().created);
  }
  EXPECT_FALSE(client().get(keys.worker("w")));
}

// Its lease of 2 s ends without it; it goes on after that, and is another one then.
TEST_F(MembershipTest, OneThatHungComesAgainAsAnotherOne) {
  std::atomic<bool> is_alive = true;
  Membership worker(client(), keys, "w", {}, {.is_alive = [&] { return is_alive.load(); }});
  const auto before = worker.registration().created;
  is_alive = false;
  EXPECT_TRUE(comes_true([&] { return !client().get(keys.worker("w")); }));
  is_alive = true;
  EXPECT_TRUE(comes_true([&] { return worker.registration().created > before; }));
  EXPECT_EQ(client().get(keys.worker("w"))->create_revision, worker.registration().created);
  const auto second = worker.registration().created;
  worker.register_anew();
  EXPECT_TRUE(comes_true([&] { return worker.registration().created > second; }));
}

TEST_F(MembershipTest, ANameIsOneWorkers) {
  const Membership worker(client(), keys, "w", {.host = "here", .process = 17});
  try {
    const Membership other(client(), keys, "w", {}, {.seconds = 1});
    ADD_FAILURE() << "two of one name";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("has a worker 'w' already (process 17 of here)"),
                                    HasSubstr("--name")));
  }
}

TEST_F(MembershipTest, AnotherRunIsRefusedWithWhatDiffers) {
  RunRecord run;
  run.identity = {"r", "60000 samples", "1"};
  client().put(keys.run_record(), to_json(run));
  WorkerRecord record;
  record.identity = {"r", "59999 samples", "2"};
  try {
    const Membership worker(client(), keys, "w", record);
    ADD_FAILURE() << "it was let in";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("data: '59999 samples' here, '60000 samples' in the run"),
                      HasSubstr("version: '2' here, '1' in the run")));
  }
  EXPECT_FALSE(client().get(keys.worker("w")));
}

TEST_F(MembershipTest, OneAtATimeIsElected) {
  Election first(client(), keys, {.name = "first"});
  Election second(client(), keys, {.name = "second"});
  EXPECT_TRUE(first.stand());
  EXPECT_TRUE(first.stand());
  EXPECT_FALSE(second.stand());
  const auto write = [&](const Election& leader, const std::string& value) {
    return client().txn({.compares = {leader.held_key()}, .success = {put_key("/x", value)}});
  };
  EXPECT_TRUE(write(first, "1").is_success);
  const auto held = first.held_key();
  first.resign();
  EXPECT_TRUE(second.stand());
  EXPECT_FALSE(client().txn({.compares = {held}}).is_success);
  EXPECT_TRUE(write(second, "2").is_success);
}

TEST_F(MembershipTest, WhoHasAnOlderPlanPublishesNothing) {
  Plan plan;
  plan.generation = 1;
  const PlanWatch watch(client(), keys);
  EXPECT_FALSE(watch.current());
  client().put(keys.plan(), to_json(plan));
  const auto seen = watch.wait(0, seconds(5));
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->plan, plan);
  Fence fence(client(), keys, seen->revision);
  EXPECT_TRUE(fence.publish({.generation = 1, .step = 10}));
  EXPECT_TRUE(fence.publish({.generation = 1, .step = 10}));  // the same once more
  plan.generation = 2;
  client().put(keys.plan(), to_json(plan));
  EXPECT_FALSE(fence.publish({.generation = 1, .step = 20}));
  EXPECT_EQ(from_json<Commit>(client().get(keys.commit())->value, "key").step, 10);
  const auto newer = watch.wait(seen->revision, seconds(5));
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->plan.generation, 2);
  EXPECT_FALSE(watch.wait(newer->revision, milliseconds(50)));
}

}  // namespace
}  // namespace fovea::elastic
