// A run's state on one mesh after another, from its members, and what a checkpoint of that step
// gives.
#include "fovea/elastic/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "tests/elastic/state_check.h"
#include "tests/parallel/inner_world.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/parallel/shared_run.h"

namespace fovea::elastic {
namespace {

using parallel::World;
using parallel::testing::launch_of;
using parallel::testing::run_ranks;
using ::testing::HasSubstr;
using train::HaveAlike;
using train::testing::Folder;
using train::testing::ShardedTraining;

// Of the tiny run: five batches an epoch, of which the last is smaller.
int64_t position_of(int64_t step) { return step / 5 * 100 + step % 5 * 24; }

// Members of the outer world as a mesh.
struct Stage {
  std::vector<int64_t> ranks;
  int64_t copies = 1, shards = 1, tp = 1;
  int64_t zero = 3;

  train::TrainConfig on(train::TrainConfig config) const {
    config.parallel = {.dp_replicate = copies, .dp_shard = shards, .zero = zero, .tp = tp};
    return config;
  }
  parallel::DeviceMesh mesh(World& world) const {
    return {world, parallel::MeshShape{.sizes = {copies, shards, 1, tp}}};
  }
};

// What one process has of a run that goes from stage to stage.
class Worker {
 public:
  Worker(World& outer, const Folder& own)
      : outer_(outer),
        config_(train::testing::shared_config(outer, own, "run")),
        name_(fmt::format("w{}", outer.rank())) {
    config_.trainer.ema = {.enabled = true, .decay = 0.7, .warmup = false};
  }

  // Joins, takes over the state, and compares it with that of the checkpoint of the same step, if
  // there was one; then some steps, of which the state after the last one or (lag) before it is
  // saved. -> bytes. Called by all ranks of the outer world.
  std::optional<Relaid> run(const Stage& stage, int64_t num_steps, bool lag = false) {
    num_stages_ += 1;
    std::optional<Relaid> result;
    const bool is_member =
        std::find(stage.ranks.begin(), stage.ranks.end(), outer_.rank()) != stage.ranks.end();
    if (is_member) result = run_as_member(stage, num_steps, lag);
    if (!is_member) held_ = {};
    const auto told = parallel::all_gather_text(outer_.all(), std::to_string(committed_.step),
                                                "the checkpoint's step");
    committed_.step = std::stoll(told.at(static_cast<size_t>(stage.ranks.front())));
    committed_.folder = fmt::format("{}/checkpoints/step_{:08d}", config_.run.dir, committed_.step);
    return result;
  }

  // It is lost with all that it has.
  void lose_state() { held_ = {}; }
  int64_t step() const { return held_.step; }

 private:
  std::optional<Relaid> run_as_member(const Stage& stage, int64_t num_steps, bool lag) {
    World world(launch_of(outer_, stage.ranks, std::to_string(num_stages_)),
                {.processes = 1, .timeout = 60});
    const auto config = stage.on(config_);
    const auto mesh = stage.mesh(world);
    ShardedTraining training(config, &mesh, at::kFloat);
    training.open_checkpoints(config.run.dir + "/checkpoints");
    held_.worker = name_;
    auto relaid = relay(world, held_, training.save(HaveAlike::kEach), committed_, 1000);
    int64_t step = 0;
    if (relaid) {
      step = relaid->step;
      training.load(relaid->state);
      expect_as_resumed(training, config, mesh, step);
    }
    training.source.loader->seek(position_of(step));
    for (const int64_t last = step + num_steps; step < last; ++step) {
      if (lag && step + 1 == last) save(training, step);
      auto batch = training.source.loader->next();
      const auto prepared = prepare_step(training.step_parts(), batch, step);
      outcome_of(prepared, training.options);
      apply_step(training.step_parts(), prepared, 1e-3);
    }
    if (!lag) save(training, step);
    training.checkpoints->wait();
    auto state = training.save(HaveAlike::kEach);
    state.scalars["step"] = step;
    held_ = make_holding(name_, step, std::move(state));
    world.leave();
    return relaid;
  }

  void save(ShardedTraining& training, int64_t step) {
    auto state = training.save();
    state.scalars["step"] = step;
    if (training.has_writers_parts()) training.checkpoints->save(step, state, false);
    committed_.step = step;
  }

  // Where the checkpoint is of the same step.
  void expect_as_resumed(ShardedTraining& training, const train::TrainConfig& config,
                         const parallel::DeviceMesh& mesh, int64_t step) {
    if (step != committed_.step) return;
    ShardedTraining resumed(config, &mesh, at::kFloat);
    resumed.open_checkpoints(config.run.dir + "/checkpoints");
    const auto saved = resumed.load_latest();
    ASSERT_TRUE(saved.has_value());
    EXPECT_EQ(saved->scalars.at("step"), step);
    resumed.load(*saved);
    testing::expect_same_state(training.save(HaveAlike::kEach), resumed.save(HaveAlike::kEach));
    training.check_same_weights();
  }

  World& outer_;
  train::TrainConfig config_;
  std::string name_;
  int64_t num_stages_ = 0;
  Holding held_;
  CommittedState committed_;
};

// 1 -> 2 -> 3 -> 2, each of which has all.
TEST(RelayTest, CopiesComeFromMembersAlone) {
  run_ranks(3, [](World& outer) {
    const Folder own;
    Worker worker(outer, own);
    EXPECT_FALSE(worker.run({.ranks = {0}}, 1).has_value());  // a new run
    const std::vector<std::vector<int64_t>> stages = {{0, 1}, {2, 0, 1}, {1, 2}};
    std::optional<uint64_t> of_one;
    for (const auto& ranks : stages) {
      const auto relaid =
          worker.run({.ranks = ranks, .copies = static_cast<int64_t>(ranks.size())}, 1);
      if (!relaid) continue;
      EXPECT_EQ(relaid->bytes_from_checkpoint, 0u);
      if (ranks.size() == 2 && ranks.front() == 1) {
        EXPECT_EQ(relaid->bytes_from_peers, 0u);  // both have it
      } else {
        EXPECT_GT(relaid->bytes_from_peers, 10000u);
        EXPECT_EQ(relaid->bytes_from_peers, of_one.value_or(relaid->bytes_from_peers));
        of_one = relaid->bytes_from_peers;
      }
    }
  });
}

// Three share out one copy, and one of them is lost: its third comes from the checkpoint. Where
// that is of an earlier step, all does.
TEST(RelayTest, LostPartsComeFromTheCheckpoint) {
  run_ranks(3, [](World& outer) {
    const Folder own;
    Worker worker(outer, own);
    const Stage three{.ranks = {0, 1, 2}, .shards = 3}, two{.ranks = {2, 0}, .shards = 2};
    worker.run(three, 2);
    if (outer.rank() == 1) worker.lose_state();
    const auto partly = worker.run(two, 1);
    if (partly) {
      EXPECT_EQ(partly->step, 2);
      EXPECT_GT(partly->bytes_from_checkpoint, 1000u);
      EXPECT_GT(partly->bytes_from_peers, 1000u);
    }
    worker.run(three, 2, /*lag=*/true);
    if (outer.rank() == 1) worker.lose_state();
    const auto all = worker.run(two, 1);
    if (all) {
      EXPECT_EQ(all->step, 4);  // of 5: the step before the last one was saved
      EXPECT_EQ(all->bytes_from_peers, 0u);
      EXPECT_GT(all->bytes_from_checkpoint, partly->bytes_from_checkpoint);
    }
  });
}

// Two copies of two parts: what one member had, another one has.
TEST(RelayTest, WhereACopyLivesNothingComesFromTheCheckpoint) {
  run_ranks(4, [](World& outer) {
    const Folder own;
    Worker worker(outer, own);
    for (const int64_t zero : {2, 3}) {
      const Stage four{.ranks = {0, 1, 2, 3}, .copies = 2, .shards = 2, .zero = zero};
      for (const Stage& rest : {Stage{.ranks = {0, 2, 3}, .shards = 3, .zero = zero},
                                Stage{.ranks = {3, 0}, .shards = 2, .zero = zero},
                                Stage{.ranks = {1, 2, 3, 0}, .copies = 2, .shards = 2}}) {
        worker.run(four, 2, /*lag=*/true);  // the checkpoint is older
        const auto before = worker.step();
        if (outer.rank() == 1) worker.lose_state();
        const auto relaid = worker.run(rest, 0, /*lag=*/true);
        if (!relaid) continue;
        EXPECT_EQ(relaid->bytes_from_checkpoint, 0u);
        EXPECT_EQ(relaid->step, before);
      }
    }
  });
}

// tp stays; ranks change their places in it.
TEST(RelayTest, LayersThatAreSharedOutChangePlaces) {
  run_ranks(4, [](World& outer) {
    const Folder own;
    Worker worker(outer, own);
    worker.run({.ranks = {0, 1, 2, 3}, .copies = 2, .tp = 2}, 2);
    if (outer.rank() == 0) worker.lose_state();
    const auto relaid = worker.run({.ranks = {1, 2}, .tp = 2}, 1);
    if (!relaid) return;
    EXPECT_EQ(relaid->bytes_from_checkpoint, 0u);
    EXPECT_GT(relaid->bytes_from_peers, 1000u);
  });
}

TEST(RelayTest, MembersThatDifferAreRefused) {
  run_ranks(2, [](World& outer) {
    const Folder own;
    const auto refused = [&](const Holding& held, const CommittedState& committed) {
      World world(launch_of(outer, {0, 1}, held.worker.size() > 1 ? "one" : "two"),
                  {.processes = 1, .timeout = 60});
      try {
        relay(world, held, {}, committed);
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string("nothing");
    };
    Holding held;
    CommittedState committed;
    held.worker = "same";
    EXPECT_THAT(refused(held, committed), HasSubstr("two members are called 'same'"));
    held.worker = std::to_string(outer.rank());
    committed.step = outer.rank() + 4;
    EXPECT_THAT(refused(held, committed),
                HasSubstr("the last checkpoint is of step 4 for worker 0, and of step 5 for "
                          "worker 1"));
  });
}

}  // namespace
}  // namespace fovea::elastic
