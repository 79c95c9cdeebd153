// Steps of several ranks whose numbers come late.
#include <gtest/gtest.h>

#include "fovea/train/step/stepper.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/support/close.h"

namespace fovea::train {
namespace {

using parallel::World;
using parallel::testing::run_ranks;

// The host asks for the numbers of several steps at once; weights, averages and numbers are those
// of steps whose numbers it has before each update.
TEST(StepperRanksTest, LateNumbersChangeNothing) {
  run_ranks(2, [](World& world) {
    const testing::Folder folder;
    for (const int64_t copies : {2, 1}) {  // DDP, FSDP
      SCOPED_TRACE(copies);
      const auto mesh = testing::sharded_mesh(world, copies);
      auto config = testing::tiny_config(folder);
      config.parallel.dp_shard = world.size() / copies;
      config.trainer.max_grad_norm = 0.1;
      testing::ShardedTraining late(config, &mesh, at::kFloat), at_once(config, &mesh, at::kFloat);
      late.options.notes = at_once.options.notes = [&] {
        return StepNotes{.stop_requests = world.rank(), .bad_samples = 2};
      };
      Stepper of_late(late.step_parts(), Numbers::kLate);
      Stepper of_once(at_once.step_parts(), Numbers::kAtOnce);
      ASSERT_TRUE(of_late.is_late());
      for (int64_t step = 0; step < 3; ++step) {
        auto batch = late.source.loader->next();
        const auto notes = of_late.take(batch, step, 1e-2);
        EXPECT_EQ(notes.stop_requests, 1);
        EXPECT_EQ(notes.bad_samples, 4);
        of_once.take(batch, step, 1e-2);
        support::expect_same_bits(late.optimizer->flat_param(), at_once.optimizer->flat_param(),
                                  "weights");
      }
      for (const auto& [name, average] : late.ema->state()) {
        support::expect_same_bits(average, at_once.ema->state().at(name), name);
      }
      const auto found = of_late.outcomes(), wanted = of_once.outcomes();
      ASSERT_EQ(found.size(), 3u);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].loss, wanted[i].loss);
        EXPECT_EQ(found[i].weight, wanted[i].weight);
        EXPECT_EQ(found[i].grad_norm, wanted[i].grad_norm);
        EXPECT_EQ(found[i].sums, wanted[i].sums);
        EXPECT_EQ(found[i].notes.bad_samples, 4);
      }
    }
  });
}

}  // namespace
}  // namespace fovea::train
