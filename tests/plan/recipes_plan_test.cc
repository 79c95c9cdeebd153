// Every recipe can be planned, in every dtype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "fovea/plan/mesh_plan.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/phases.h"
#include "tests/data/support.h"
#include "tests/train/recipe_files.h"

namespace fovea::plan {
namespace {

using data::testing::message_of;
using ::testing::HasSubstr;

const parallel::MeshShape kTwoRanks = {{1, 2, 1, 1}};

train::TrainConfig recipe_on_two_ranks(const std::string& file,
                                       std::vector<std::string> overrides) {
  overrides.emplace_back("parallel={dp_shard: 2}");
  overrides.emplace_back("elastic.enable_adjust=false");  // no process would have whole gradients
  const auto read = train::load_any_config(file, overrides);
  auto config = read.phases.empty() ? read : train::resolve_phases(read).front().config;
  if (auto* vit = std::get_if<models::VitConfig>(&config.model.value)) {
    vit->depth = 2;  // blocks are alike
  }
  return config;
}

TEST(RecipesPlanTest, EveryRecipeIsRehearsedInEveryDtype) {
  for (const auto& file : train::testing::recipe_files()) {
    for (const std::string dtype : {"float32", "bfloat16", "float16"}) {
      SCOPED_TRACE(file + " " + dtype);
      const auto config = recipe_on_two_ranks(file, {"device.dtype=" + dtype, "device.type=cuda"});
      const auto rehearsal = rehearse(config, kTwoRanks, 0);
      EXPECT_GT(rehearsal.flops(), 0);
      EXPECT_GT(rehearsal.memory.activations, 0);
    }
  }
}

double fp8_flops(const Rehearsal& rehearsal) {
  double sum = 0;
  rehearsal.for_each([&](const Event& event) { sum += event.fp8_flops; });
  return sum;
}

// The three products of each linear layer of a block, and no other ones; all products are as many
// as without FP8.
TEST(RecipesPlanTest, ProductsOfFp8AreCountedApart) {
  const std::string file = FOVEA_SOURCE_DIR "/recipes/imagenet/rosetta_vit_b16.yaml";
  const auto machine = machine_profile("h200x8");
  for (const std::string zero : {"2", "3"}) {
    const std::vector<std::string> options = {"device.dtype=bfloat16", "device.type=cuda",
                                              "parallel.zero=" + zero};
    const auto with_fp8 = [&](const std::string& mode) {
      auto all = options;
      all.push_back("device.fp8=" + mode);
      return recipe_on_two_ranks(file, all);
    };
    const auto plain = rehearse(with_fp8("off"), kTwoRanks, 0);
    const auto current = rehearse(with_fp8("current"), kTwoRanks, 0);
    EXPECT_EQ(fp8_flops(plain), 0);
    const auto& vit = *with_fp8("off").model.get_if<models::VitConfig>();
    const auto images = static_cast<double>(current.local_batch_size);
    const auto width = static_cast<double>(vit.embed_dim);
    // Two blocks, of which the last makes proj and mlp of the class token alone.
    const double rows = 12 * 197 * images + (3 * 197 + 9) * images;
    EXPECT_NEAR(fp8_flops(current), 3 * 2 * width * width * rows, 0.01 * fp8_flops(current));
    EXPECT_NEAR(current.flops(), plain.flops(), 1e-9 * plain.flops());
    EXPECT_NE(current.memory.activations, plain.memory.activations);
    EXPECT_LT(step_time(current, machine, at::kBFloat16).products,
              step_time(plain, machine, at::kBFloat16).products);
    // One more collective: of the largest values.
    const auto delayed = rehearse(with_fp8("delayed"), kTwoRanks, 0);
    EXPECT_EQ(fp8_flops(delayed), fp8_flops(current));
    const auto calls = [](const Rehearsal& rehearsal) {
      int64_t sum = 0;
      for (const auto& [axis, counts] : rehearsal.counts()) {
        sum += counts.at(parallel::Collective::kAllReduce).calls;
      }
      return sum;
    };
    EXPECT_EQ(calls(delayed), calls(current) + 1);
  }
}

TEST(RecipesPlanTest, Fp8IsForMachinesThatMultiplyIt) {
  const std::string file = FOVEA_SOURCE_DIR "/recipes/imagenet/rosetta_vit_b16.yaml";
  const auto with_fp8 = [&](const std::string& mode) {
    return recipe_on_two_ranks(file, {"device.dtype=bfloat16", "device.fp8=" + mode});
  };
  EXPECT_EQ(on_machine(with_fp8("auto"), machine_profile("a100x8")).device.fp8, "off");
  EXPECT_EQ(on_machine(with_fp8("auto"), machine_profile("h200x8")).device.fp8, "auto");
  EXPECT_THAT(
      message_of<ConfigError>([&] { on_machine(with_fp8("current"), machine_profile("a100x8")); }),
      HasSubstr("a100x8 does not multiply FP8"));
}

}  // namespace
}  // namespace fovea::plan
