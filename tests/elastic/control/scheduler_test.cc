// Schedulers and workers, without what they train, on an etcd of their own.
#include "fovea/elastic/control/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fovea/elastic/control/membership.h"
#include "fovea/elastic/control/plan_watch.h"
#include "fovea/elastic/control/status.h"
#include "tests/elastic/control/etcd_support.h"

namespace fovea::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunRecord some_run() {
  RunRecord run;
  run.dir = "/runs/r";
  run.recipe = "model: vit\n";
  run.identity = {"sum", "", "1"};
  run.options.global_batch = 64;
  run.options.slots = 8;
  return run;
}

SchedulerOptions named(const std::string& name, int64_t last_generation = 0) {
  SchedulerOptions options;
  options.name = name;
  options.settle = milliseconds(0);
  options.last_generation = last_generation;
  return options;
}

// A scheduler in a thread, until it ends or the test does.
class RunningScheduler {
 public:
  RunningScheduler(const EtcdClient& client, const RunKeys& keys, const RunRecord& run,
                   const SchedulerOptions& options)
      : scheduler_(client, keys, run, options) {
    end_ = std::async(std::launch::async,
                      [this] { return scheduler_.run([this] { return is_told_.load(); }); });
  }
  ~RunningScheduler() { is_told_ = true; }

  std::string wait() { return end_.get(); }
  bool is_leader() const { return scheduler_.is_leader(); }

 private:
  Scheduler scheduler_;
  std::atomic<bool> is_told_ = false;
  std::future<std::string> end_;  // waits for it when it goes
};

class SchedulerTest : public testing::EtcdTest {
 protected:
  static bool comes_true(const std::function<bool()>& condition) {
    for (int i = 0; i < 1600; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(25));
    }
    return false;
  }
  std::unique_ptr<Membership> worker(const std::string& name, const std::string& data = "d") {
    WorkerRecord record{.host = "h", .device = "cpu", .state = "ready"};
    record.identity = {"sum", data, "1"};
    return std::make_unique<Membership>(client(), keys, name, record);
  }
  std::vector<std::string> members() {
    std::vector<std::string> names;
    for (const auto& member : read_status(client(), keys).members) names.push_back(member.worker);
    return names;
  }
  bool comes_to(const std::vector<std::string>& names) {
    return comes_true([&] { return members() == names; });
  }
  // A process that is somebody in the run, until it is killed.
  pid_t process(const std::function<void(EtcdClient&)>& be_somebody) {
    const pid_t child = fork();
    if (child != 0) return child;
    alarm(60);
    EtcdClient own(client().place());
    be_somebody(own);
    pause();
    _exit(0);
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  const RunKeys keys{"r"};
};

TEST_F(SchedulerTest, WorkersComeAndGo) {
  const RunningScheduler scheduler(client(), keys, some_run(), named("s"));
  auto a = worker("a");
  EXPECT_TRUE(comes_to({"a"}));
  auto b = worker("b");
  EXPECT_TRUE(comes_to({"a", "b"}));
  const auto status = read_status(client(), keys);
  EXPECT_EQ(status.state, "running");
  EXPECT_EQ(status.generation, 2);
  EXPECT_EQ(status.leader, "s");
  EXPECT_EQ(status.global_batch, 64);
  EXPECT_EQ(status.members[1].rows, 32);
  EXPECT_GT(status.members[1].lease_s, 0);
  ask(client(), keys, {.kind = "scale", .workers = 1});
  EXPECT_TRUE(comes_to({"a"}));
  EXPECT_THAT(read_status(client(), keys).waiting, ElementsAre("b"));
  ask(client(), keys, {.kind = "add", .worker = "b"});
  EXPECT_TRUE(comes_to({"a", "b"}));
  ask(client(), keys, {.kind = "remove", .worker = "a"});
  EXPECT_TRUE(comes_to({"b"}));
  EXPECT_THROW(ask(client(), keys, {.kind = "remove", .worker = "c"}), ConfigError);
  EXPECT_THAT(client().range(with_prefix(keys.requests())).values, IsEmpty());
}

TEST_F(SchedulerTest, WorkersThatComeTogetherMakeOneChange) {
  auto options = named("s");
  options.settle = milliseconds(500);
  const RunningScheduler scheduler(client(), keys, some_run(), options);
  const auto start = std::chrono::steady_clock::now();
  const auto a = worker("a"), b = worker("b"), c = worker("c");
  const bool is_slow = std::chrono::steady_clock::now() - start > options.settle;
  EXPECT_TRUE(comes_to({"a", "b", "c"}));
  if (!is_slow) {
    EXPECT_EQ(read_status(client(), keys).generation, 1);
  }
}

TEST_F(SchedulerTest, AKilledWorkerIsGoneWithItsLease) {
  const pid_t child = process([&](EtcdClient& own) {
    WorkerRecord record{.state = "ready"};
    record.identity = {"sum", "d", "1"};
    new Membership(own, keys, "a", record);
  });
  // After it: a process of several threads is not to be forked.
  const RunningScheduler scheduler(client(), keys, some_run(), named("s"));
  EXPECT_TRUE(comes_to({"a"}));
  const auto b = worker("b");
  EXPECT_TRUE(comes_to({"a", "b"}));
  end(child);
  EXPECT_TRUE(comes_to({"b"}));
  const auto plan = from_json<Plan>(client().get(keys.plan())->value, "plan");
  EXPECT_EQ(plan.reason, "death");
  EXPECT_EQ(plan.members[0].share, (ShareRecord{0, 8, 8}));
}

// Two of them: the second waits, and leads once the first one's lease has ended.
TEST_F(SchedulerTest, AKilledSchedulerIsFollowedByTheOneThatWaits) {
  const pid_t child = process([&](EtcdClient& own) {
    Scheduler first(own, keys, some_run(), named("first"));
    first.run([] { return false; });
  });
  EXPECT_TRUE(comes_true([&] { return client().get(keys.leader()).has_value(); }));
  const RunningScheduler second(client(), keys, some_run(), named("second"));
  const auto a = worker("a");
  EXPECT_TRUE(comes_to({"a"}));
  EXPECT_EQ(read_status(client(), keys).leader, "first");
  const auto plan = client().get(keys.plan());
  end(child);
  EXPECT_TRUE(comes_true([&] { return read_status(client(), keys).leader == "second"; }));
  EXPECT_EQ(client().get(keys.plan()), plan);  // nobody else noticed
  const auto b = worker("b");
  EXPECT_TRUE(comes_to({"a", "b"}));
}

TEST_F(SchedulerTest, AWorkersOwnSchedulerTakesOver) {
  auto first = std::make_unique<RunningScheduler>(client(), keys, some_run(), named("first"));
  const auto a = worker("a");
  EXPECT_TRUE(comes_to({"a"}));
  const StandbyScheduler standby(client(), keys, named("a"));
  first.reset();
  EXPECT_TRUE(comes_true([&] { return read_status(client(), keys).leader == "a"; }));
  const auto b = worker("b");
  EXPECT_TRUE(comes_to({"a", "b"}));
}

// Away for longer than a lease, and then there for longer than one: nobody has lost any.
TEST_F(SchedulerTest, AnEtcdThatIsBackAfterALeaseChangesNothing) {
  const RunningScheduler scheduler(client(), keys, some_run(), named("s"));
  const auto a = worker("a"), b = worker("b");
  EXPECT_TRUE(comes_to({"a", "b"}));
  const auto plan = client().get(keys.plan());
  const auto leader = client().get(keys.leader());
  etcd().kill();
  std::this_thread::sleep_for(seconds(kLeaseSeconds + 1));
  EXPECT_GT(a->silent_for(), seconds(kLeaseSeconds));
  etcd().start();
  EXPECT_TRUE(comes_true([&] { return a->silent_for() < seconds(1); }));
  std::this_thread::sleep_for(milliseconds(2600));
  EXPECT_EQ(client().get(keys.plan()), plan);
  EXPECT_EQ(client().get(keys.leader()), leader);
  EXPECT_EQ(client().get(keys.worker("a"))->create_revision, a->registration().created);
  const auto c = worker("c");
  EXPECT_TRUE(comes_to({"a", "b", "c"}));
}

TEST_F(SchedulerTest, ANameBelongsToTheRunThatIsAlive) {
  auto first = std::make_unique<RunningScheduler>(client(), keys, some_run(), named("first"));
  const auto a = worker("a");
  EXPECT_TRUE(comes_to({"a"}));
  auto other = some_run();
  other.recipe = "model: mae\n";
  other.identity.recipe = "another sum";
  try {
    const Scheduler second(client(), keys, other, named("second"));
    ADD_FAILURE() << "two runs of one name";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'model: mae' here"), HasSubstr("another name")));
  }
  EXPECT_THROW(worker("b", "other data"), ConfigError);
}

TEST_F(SchedulerTest, AWorkerOfOtherDataIsLeftOutAndNamed) {
  const auto a = worker("a"), b = worker("b", "other");
  const RunningScheduler scheduler(client(), keys, some_run(), named("s"));
  EXPECT_TRUE(comes_to({"a"}));
  const auto status = read_status(client(), keys);
  EXPECT_THAT(status.missing, HasSubstr("worker b is of another run: data: 'other' here, 'd'"));
  EXPECT_THAT(status.waiting, ElementsAre("b"));
  // One of another version is not even read.
  const auto lease = client().grant(60);
  client().put(keys.worker("c"), R"({"hots":"h"})", lease.id);
  EXPECT_THAT(read_status(client(), keys).missing, HasSubstr("/fovea/r/workers/c: no \"host\""));
  EXPECT_TRUE(comes_to({"a"}));
}

TEST_F(SchedulerTest, ARunThatWasStoppedGoesOnWithHigherNumbers) {
  {
    RunningScheduler scheduler(client(), keys, some_run(), named("s", /*last_generation=*/4));
    auto a = worker("a");
    EXPECT_TRUE(comes_to({"a"}));
    EXPECT_EQ(read_status(client(), keys).generation, 5);
    ask(client(), keys, {.kind = "stop"});
    EXPECT_TRUE(comes_true([&] { return read_status(client(), keys).state == "stopping"; }));
    const auto plan = client().get(keys.plan());
    EXPECT_TRUE(Fence(client(), keys, plan->mod_revision).publish({.generation = 6, .step = 8}));
    EXPECT_EQ(scheduler.wait(), "stop");
    EXPECT_EQ(read_status(client(), keys).state, "stopped");
    EXPECT_THROW(ask(client(), keys, {.kind = "stop"}), ConfigError);
  }
  RunningScheduler again(client(), keys, some_run(), named("s"));
  const auto b = worker("b");
  EXPECT_TRUE(comes_to({"b"}));
  const auto plan = client().get(keys.plan());
  const auto begun = from_json<Plan>(plan->value, "plan");
  EXPECT_EQ(begun.generation, 7);
  EXPECT_EQ(begun.reason, "start");
  Commit done{.generation = 7, .step = 10};
  done.is_done = true;
  EXPECT_TRUE(Fence(client(), keys, plan->mod_revision).publish(done));
  EXPECT_EQ(again.wait(), "done");
  EXPECT_EQ(read_status(client(), keys).state, "done");
}

TEST_F(SchedulerTest, RunsAreFoundByName) {
  EXPECT_THROW(find_run(client(), ""), ConfigError);
  client().put(keys.run_record(), to_json(some_run()));
  EXPECT_EQ(find_run(client(), "").run(), "r");
  client().put(RunKeys("q").run_record(), to_json(some_run()));
  EXPECT_THAT(runs_of(client()), ElementsAre("q", "r"));
  EXPECT_EQ(find_run(client(), "q").run(), "q");
  try {
    find_run(client(), "rr");
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("no run 'rr'"), HasSubstr("there are: q, r")));
  }
  EXPECT_EQ(read_status(client(), keys).state, "waiting");
}

}  // namespace
}  // namespace fovea::elastic
