// Processes killed at random points of a step. Others come in their places, so that ranks and
// shares are what they were, and what comes out has the bits of a run that nothing happened to.
#include <ATen/ops/cat.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/elastic/agreement.h"
#include "fovea/elastic/relay.h"
#include "fovea/parallel/rank_error.h"
#include "tests/elastic/state_check.h"
#include "tests/parallel/member.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/train/model_cases.h"

namespace fovea::elastic {
namespace {

using parallel::RankError;
using parallel::World;
using parallel::testing::Member;
using train::HaveAlike;
using train::testing::ShardedTraining;

constexpr int64_t kNumKills = 3, kStepsBetween = 4, kNumSteps = (kNumKills + 1) * kStepsBetween;
constexpr double kRate = 1e-3;

int64_t position_in_run(int64_t step) { return step / 5 * 100 + step % 5 * 24; }

struct Shape {
  int64_t copies = 1, shards = 1;
  std::string carrier;

  int64_t num_members() const { return copies * shards; }
  train::TrainConfig on(train::TrainConfig config) const {
    config.parallel = {.dp_replicate = copies, .dp_shard = shards, .zero = 2};
    return config;
  }
};

// Who dies in a generation, and when.
struct Kill {
  int64_t place = 0, step = 0;
  std::chrono::microseconds delay{0};  // after the beginning of the step
};

std::vector<Kill> draw_kills(const Shape& shape, uint64_t seed) {
  RandomStream random(philox_key(seed, "kills"), 0);
  std::vector<Kill> kills;
  for (int64_t i = 0; i < kNumKills; ++i) {
    kills.push_back(
        {.place = static_cast<int64_t>(random.below(static_cast<uint32_t>(shape.num_members()))),
         .step = i * kStepsBetween + 1 + static_cast<int64_t>(random.below(2)),
         .delay = std::chrono::microseconds(random.below(30000))});
  }
  return kills;
}

// A process while it is a member: it leaves one generation and joins the next.
class LivingMember {
 public:
  LivingMember(World& outer, const Shape& shape, train::TrainConfig config)
      : outer_(outer), shape_(shape), config_(shape.on(std::move(config))) {}

  struct Place {
    std::unique_ptr<World> world;
    std::unique_ptr<parallel::DeviceMesh> mesh;
    std::unique_ptr<ShardedTraining> training;
    train::StepProgress progress;
    int64_t first_step = 0;
  };

  // Into a generation, out of the one before, if there was one.
  void join(std::unique_ptr<World> world) {
    Place next;
    next.world = std::move(world);
    StepStand stand{.done = first_, .has_sums = false, .numbers = {}};
    if (place_.training) {
      stand = stand_of(place_.progress, place_.training->step_parts(), place_.first_step);
    }
    const auto agreement = agree_on_step(*next.world, stand);
    const auto own = agreement.choices.at(static_cast<size_t>(next.world->rank()));
    num_finished += own == StepChoice::kFinish ? 1 : 0;
    Holding held{.worker = fmt::format("w{}", outer_.rank()), .step = -1, .state = {}};
    if (place_.training) {
      const auto outcome = carry_out(agreement, own, *place_.training, kRate);
      if (outcome) losses.at(static_cast<size_t>(agreement.done - 1)) = outcome->loss;
      if (own != StepChoice::kDiscard) {
        held = make_holding(held.worker, agreement.done, place_.training->save(HaveAlike::kEach));
      }
    }
    next.mesh = std::make_unique<parallel::DeviceMesh>(
        *next.world, parallel::MeshShape{.sizes = {shape_.copies, shape_.shards, 1, 1}});
    next.training = std::make_unique<ShardedTraining>(config_, next.mesh.get(), at::kFloat);
    const auto relaid =
        relay(*next.world, held, next.training->save(HaveAlike::kEach), CommittedState());
    if (relaid) {
      next.training->load(relaid->state);
      next.first_step = relaid->step;
      EXPECT_EQ(relaid->bytes_from_checkpoint, 0u);
    }
    EXPECT_EQ(relaid.has_value(), agreement.done >= 0) << agreement.done;
    next.training->source.loader->seek(position_in_run(next.first_step));
    drop_place();
    place_ = std::move(next);
    place_.training->options.progress = &place_.progress;
  }

  // Steps until one before `end`, or until somebody is lost. kill: of this process, or null.
  void run(int64_t end, const Kill* kill) {
    try {
      for (int64_t step = place_.first_step; step < end; ++step) {
        if (kill != nullptr && step >= kill->step) {
          die_after(kill->delay);
          kill = nullptr;
        }
        auto& training = *place_.training;
        auto batch = training.source.loader->next();
        const auto prepared = prepare_step(training.step_parts(), batch, step);
        losses.at(static_cast<size_t>(step)) = outcome_of(prepared, training.options).loss;
        apply_step(training.step_parts(), prepared, kRate);
      }
    } catch (const RankError& error) {
      place_.world->abandon("a member is lost");
    }
  }

  checkpoint::State state() { return place_.training->save(HaveAlike::kEach); }
  World& world() { return *place_.world; }

  std::vector<double> losses = std::vector<double>(kNumSteps, 0);
  int64_t num_finished = 0;

 private:
  static void die_after(std::chrono::microseconds delay) {
    std::thread([delay] {
      std::this_thread::sleep_for(delay);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }).detach();
  }
  void drop_place() {
    first_ = -1;
    place_.training.reset();
    place_.mesh.reset();
    place_.world.reset();
  }

  World& outer_;
  Shape shape_;
  train::TrainConfig config_;
  Place place_;
  int64_t first_ = -1;
};

void expect_undisturbed(World& outer, const Shape& shape, uint64_t seed) {
  const train::testing::Folder own;
  const auto config = train::testing::tiny_config(own);
  const Member member(outer, kNumKills + 2);
  std::vector<int64_t> members;
  for (int64_t rank = 0; rank < shape.num_members(); ++rank) members.push_back(rank);
  const auto is_in = [&] {
    return std::find(members.begin(), members.end(), outer.rank()) != members.end();
  };

  std::optional<checkpoint::State> expected;
  std::vector<double> expected_losses;
  if (is_in()) {
    LivingMember undisturbed(outer, shape, config);
    undisturbed.join(member.join(members, 1, {.carrier = shape.carrier}));
    undisturbed.run(kNumSteps, nullptr);
    expected = undisturbed.state();
    expected_losses = undisturbed.losses;
    undisturbed.world().leave();
  }
  // For those that come later: weights are alike for all, parts not.
  std::vector<std::string> of_first;
  for (const double loss : expected_losses) of_first.push_back(fmt::format("{:a}", loss));
  const auto losses =
      parallel::all_gather_text(outer.all(), fmt::format("{}", fmt::join(of_first, " ")), "losses")
          .front();
  outer.all().barrier("from here on everybody may die");

  LivingMember living(outer, shape, config);
  const auto kills = draw_kills(shape, seed);
  int64_t spare = shape.num_members();
  for (int64_t number = 0; number <= kNumKills; ++number) {
    const bool is_last = number == kNumKills;
    if (is_in()) {
      living.join(member.join(members, number + 2, {.carrier = shape.carrier, .silence = 20}));
      const auto* kill = is_last ? nullptr : &kills.at(static_cast<size_t>(number));
      const bool is_victim = kill && members.at(static_cast<size_t>(kill->place)) == outer.rank();
      living.run(kNumSteps, is_victim ? kill : nullptr);
    }
    if (!is_last)
      members.at(static_cast<size_t>(kills.at(static_cast<size_t>(number)).place)) = spare++;
  }
  if (!is_in()) _exit(::testing::Test::HasFailure() ? 1 : 0);  // whose time never came
  living.world().all().barrier("the end");
  std::istringstream words(losses);
  for (size_t step = 0; step < living.losses.size(); ++step) {
    std::string word;
    words >> word;
    if (living.losses[step] == 0) continue;  // of before it came
    EXPECT_EQ(fmt::format("{:a}", living.losses[step]), word) << "step " << step;
  }
  // The parts are those of a place in the mesh; who has stayed has them to compare.
  if (expected && members.at(static_cast<size_t>(outer.rank())) == outer.rank()) {
    testing::expect_same_state(living.state(), *expected);
  }
  living.world().leave();
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

TEST(KillsTest, OfCopiesOfTheModel) {
  parallel::testing::run_ranks(3 + kNumKills, [](World& outer) {
    expect_undisturbed(outer, {.copies = 3, .carrier = parallel::kSharedCollectives}, 1);
  });
}

TEST(KillsTest, OfCopiesOfParts) {
  parallel::testing::run_ranks(4 + kNumKills, [](World& outer) {
    expect_undisturbed(outer, {.copies = 2, .shards = 2, .carrier = parallel::kGlooCollectives}, 2);
  });
}

}  // namespace
}  // namespace fovea::elastic
