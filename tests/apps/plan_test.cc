// fovea plan, from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/apps/program.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

const std::string kRecipe = FOVEA_SOURCE_DIR "/recipes/imagenet/rosetta_vit_b16.yaml";
const std::string kSmall = " model.depth=2";

testing::ProgramResult plan(const std::string& options) {
  return testing::run_fovea("plan " + kRecipe + kSmall + " " + options);
}

TEST(PlanTest, ShowsAMesh) {
  const auto run = plan("--gpus 64 --mesh dp_shard=8");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  for (const auto* text : {"dp_replicate 8 x dp_shard 8 x cp 1 x tp 1 = 64 ranks of h200x8; zero 3",
                           "4096: of a rank 64, in 1 micro-batch of 64", "optimizer", "all_gather",
                           "reduce_scatter", "pipeline parallel"}) {
    EXPECT_THAT(run.output, HasSubstr(text));
  }
}

TEST(PlanTest, ListsTheBestMeshes) {
  const auto run = plan("--gpus 8 --top 3 --json");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::istringstream lines(run.output);
  double before = 0;
  int64_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto object = nlohmann::json::parse(line);
    EXPECT_GE(object.at("step_ms").get<double>(), before);
    before = object.at("step_ms").get<double>();
    EXPECT_TRUE(object.at("fits").get<bool>());
  }
  EXPECT_EQ(count, 3);
}

TEST(PlanTest, RehearsesAThousandRanks) {
  const auto run = plan(
      "trainer.micro_batch_size=2 --gpus 1024 --mesh tp=4 --sequence-parallel --dry-run "
      "--rank 512");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("of rank 512 in a step of dp_replicate 256"));
  EXPECT_THAT(run.output, HasSubstr("have the same along every axis"));
  EXPECT_THAT(run.output, HasSubstr("reduce_scatter"));
}

TEST(PlanTest, RefusesMeshesThatDoNotFit) {
  const auto refusal = [](const std::string& options) {
    const auto run = plan(options);
    EXPECT_EQ(run.exit_code, 3) << run.output;
    return run.output;
  };
  EXPECT_THAT(refusal("--gpus 8 --mesh tp=8"), HasSubstr("num_heads is 12"));
  EXPECT_THAT(refusal("--gpus 8 --mesh dp_shard=3"), HasSubstr("there are 8"));
  EXPECT_THAT(refusal("--gpus 8192 --mesh dp_shard=8"), HasSubstr("parts of the batch"));
  EXPECT_THAT(refusal("--gpus 8 --mesh pp=2"), HasSubstr("expected sizes of dp_replicate"));
  EXPECT_THAT(refusal("--gpus 8 --mesh tp=x"), HasSubstr("found tp=x"));
  EXPECT_THAT(refusal("--gpus 8 --machine pdp11"), HasSubstr("expected one of h200x8"));
  EXPECT_THAT(refusal("--gpus 8 --mesh dp_shard=8 --dry-run --rank 8"), HasSubstr("ranks 0 to 7"));
}

}  // namespace
}  // namespace fovea
