// Passes at the same time in each of several ranks.
#include <gtest/gtest.h>

#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/support/close.h"

namespace fovea::train {
namespace {

using parallel::World;
using parallel::testing::run_ranks;

support::NamedTensors trained_at_once(TrainConfig config, const parallel::DeviceMesh& mesh,
                                      int64_t concurrent_passes) {
  config.trainer.concurrent_passes = concurrent_passes;
  testing::ShardedTraining training(config, &mesh, at::kFloat);
  training.options.micro_batch_size = 2;
  EXPECT_EQ(training.options.concurrent != nullptr, concurrent_passes > 1);
  support::NamedTensors result;
  for (int64_t step = 0; step < 5; ++step) {  // the last batch of the epoch has 4 samples
    const auto outcome = training.compute(step);
    training.optimizer->step(1e-3);
    result["loss/" + std::to_string(step)] = at::full({1}, outcome.loss, at::kDouble);
  }
  result.merge(training.weights());
  return result;
}

TEST(ConcurrentRanksTest, HaveTheBitsOfPassesOneAfterAnother) {
  run_ranks(2, [](World& world) {
    const testing::Folder folder;
    auto config = testing::tiny_config(folder);
    for (const int64_t slots : {0, 5}) {
      config.parallel.slots = slots;
      const parallel::DeviceMesh mesh(world, parallel::mesh_shape(config.parallel, 2, 24));
      const auto expected = trained_at_once(config, mesh, 1);
      for (const int64_t passes : {2, 3}) {
        const auto actual = trained_at_once(config, mesh, passes);
        ASSERT_EQ(actual.size(), expected.size());
        for (const auto& [name, values] : expected) {
          support::expect_same_bits(actual.at(name), values, name);
        }
      }
    }
  });
}

}  // namespace
}  // namespace fovea::train
