// FP8 in several processes: the same scales and the same choice on all of them.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/models/registry.h"
#include "fovea/train/step/fp8_start.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/shared_run.h"
#include "tests/train/run_check.h"

namespace fovea::train {
namespace {

using parallel::World;
using parallel::testing::run_ranks;
using testing::fit_in;

TrainConfig fp8_config_of(World& world, const testing::Folder& own, const std::string& name,
                          const std::string& fp8) {
  auto config = testing::shared_config(world, own, name);
  config.device.dtype = "bfloat16";
  config.device.fp8 = fp8;
  return config;
}

TEST(Fp8RanksTest, LargestValuesAreThoseOfAllRanks) {
  run_ranks(2, [](World& world) {
    nn::Linear linear(32, 48, /*has_bias=*/true, at::kCPU);
    linear->weight.set_data(at::full({48, 32}, 0.5));
    linear->bias.set_data(at::zeros({48}));
    Fp8Layers layers({{"layer", linear.get()}}, Fp8Scale::kDelayed, at::kCPU, world.all());
    const double own = world.is_first() ? 3 : 2;
    linear(at::full({4, 32}, own, at::kBFloat16))
        .backward(at::full({4, 48}, 1 / own, at::kBFloat16));
    layers.after_step();
    const auto history = layers.state().at("history").get<std::vector<float>>();
    const std::vector<float> last(history.end() - 3, history.end());
    EXPECT_THAT(last, ::testing::ElementsAre(3, 0.5f, 0.5f));
  });
}

// Clocks differ, and so do measurements.
TEST(Fp8RanksTest, TheFirstRanksChoiceHoldsForAll) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto config = fp8_config_of(world, own, "run", "auto");
    const auto model = models::build_model(config.model);
    const auto made = make_fp8(config, *model, at::kCPU,
                               {.all = &world.all(), .measure = [&](const LinearShape& shape) {
                                  const bool is_wide = shape.in_features > shape.out_features;
                                  return LinearSeconds{1, is_wide == world.is_first() ? 0.5 : 2};
                                }});
    for (const auto& name : made->names()) EXPECT_TRUE(name.ends_with(".mlp.fc2")) << name;
    EXPECT_FALSE(made->names().empty());
  });
}

// With the layers, the samples or the parameters shared out: trained, stopped, and gone on with.
TEST(Fp8RanksTest, RanksTrainAndResumeBitwise) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    for (const auto* kind : {"tp", "dp", "zero"}) {
      SCOPED_TRACE(kind);
      auto config = fp8_config_of(world, own, kind, "delayed");
      config.parallel.dp_replicate = kind == std::string("dp") ? 2 : 1;
      config.parallel.dp_shard = kind == std::string("zero") ? 2 : 1;
      config.parallel.tp = kind == std::string("tp") ? 2 : 1;
      config.parallel.recompute = "block";
      config.trainer.max_steps = 24;  // the history is full at 16
      config.checkpoint.every_steps = 6;
      EXPECT_EQ(fit_in(world, config).step, 24);
      auto again = config;
      again.run.dir += "_again";
      fit_in(world, again);
      if (world.is_first()) testing::go_back_to(again.run.dir, 18);
      world.all().barrier("back at step 18");
      EXPECT_EQ(fit_in(world, again).step, 24);
      if (world.is_first()) testing::expect_same_run(again.run.dir, config.run.dir);
      world.all().barrier("compared");
    }
  });
}

}  // namespace
}  // namespace fovea::train
