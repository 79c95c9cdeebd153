// Runs in FP8, and what device.fp8 chooses.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/train/step/fp8_start.h"
#include "tests/support/close.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using ::testing::ElementsAre;
using testing::fit;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TrainConfig fp8_config(const data::testing::TempDir& folder, const std::string& fp8,
                       const std::string& run) {
  auto config = testing::tiny_config(folder, run);
  config.device.dtype = "bfloat16";
  config.device.fp8 = fp8;
  return config;
}

at::Tensor first_loss(const std::string& run_dir) {
  std::ifstream lines(run_dir + "/metrics.jsonl");
  std::string line;
  std::getline(lines, line);
  return at::full({}, nlohmann::json::parse(line).at("loss").get<double>(), at::kDouble);
}

TEST(Fp8Test, LearnsAsBfloat16Does) {
  constexpr double kLearned = 80;  // of 40 samples; by chance 25. Processors round differently
  const data::testing::TempDir folder;
  auto plain = fp8_config(folder, "off", "off");
  plain.trainer.max_steps = 150;
  plain.trainer.eval_every_epochs = 0;
  EXPECT_GT(fit(plain).last_eval.at("top1"), kLearned);
  for (const auto* fp8 : {"current", "delayed"}) {
    SCOPED_TRACE(fp8);
    auto config = plain;
    config.device.fp8 = fp8;
    config.run.dir = folder.file(fp8);
    EXPECT_GT(fit(config).last_eval.at("top1"), kLearned);
    EXPECT_NE(testing::losses(config.run.dir), testing::losses(plain.run.dir));
    support::expect_close(first_loss(config.run.dir), first_loss(plain.run.dir), at::kBFloat16,
                          "loss of the first step");
  }
}

// The history goes on where it was, before it is full and after; recomputed blocks add nothing.
TEST(Fp8Test, ResumesBitwiseAndRecomputesTheSame) {
  const data::testing::TempDir folder;
  auto config = fp8_config(folder, "delayed", "whole");
  config.trainer.max_steps = 30;
  config.trainer.micro_batch_size = 10;
  config.checkpoint.every_steps = 6;
  config.checkpoint.keep = 100;
  fit(config);
  for (const int64_t step : {6, 24}) {
    auto cut = config;
    cut.run.dir = folder.file("cut" + std::to_string(step));
    fit(cut);
    testing::go_back_to(cut.run.dir, step);
    EXPECT_EQ(fit(cut).step, 30);
    testing::expect_same_run(cut.run.dir, config.run.dir);
  }
  auto recomputed = config;
  recomputed.run.dir = folder.file("recomputed");
  recomputed.parallel.recompute = "block";
  fit(recomputed);
  testing::expect_same_run(recomputed.run.dir, config.run.dir);
}

TEST(Fp8Test, SaysWhatElseItNeeds) {
  const data::testing::TempDir folder;
  for (const auto* dtype : {"float32", "float16", "auto"}) {
    auto config = fp8_config(folder, "current", "run");
    config.device.dtype = dtype;
    ConfigIssues issues;
    config.device.validate(issues);
    ASSERT_EQ(issues.all().size(), 1u);
    EXPECT_EQ(issues.all().front().key, "fp8");
    EXPECT_THAT(issues.all().front().message, HasSubstr("set device.dtype=bfloat16"));
  }
  ConfigIssues none;
  fp8_config(folder, "delayed", "run").device.validate(none);
  EXPECT_THAT(none.all(), IsEmpty());
  auto narrow = fp8_config(folder, "current", "narrow");
  auto vit = *narrow.model.get_if<models::VitConfig>();
  vit.embed_dim = 24;
  narrow.model = {vit};
  try {
    fit(narrow);
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("multiples of 16"));
  }
}

// Wide sums are faster, and of the others nothing is.
LinearSeconds faster_where_wide(const LinearShape& shape) {
  return {.bfloat16 = 1, .fp8 = shape.in_features > 64 ? 0.5 : 1.0};
}

TEST(Fp8Test, ChoosesWhatIsFasterAndMeasuresEachShapeOnce) {
  std::vector<LinearShape> measured;
  const auto choice = choose_fp8(
      {{"a", {100, 64, 64}}, {"b", {100, 128, 64}}, {"c", {50, 128, 64}}, {"d", {100, 128, 64}}},
      [&](const LinearShape& shape) {
        measured.push_back(shape);
        return shape.rows < 100 ? LinearSeconds{1, 2} : faster_where_wide(shape);
      });
  EXPECT_EQ(measured.size(), 3u);
  EXPECT_THAT(choice.layers, ElementsAre("b", "d"));
  EXPECT_THAT(choice.text, HasSubstr("2 of 4 linear layers"));
  EXPECT_THAT(choice.text, HasSubstr("100 x 128 x 64: 500.00 ms, 1000.00 ms in bfloat16"));
}

TEST(Fp8Test, AutoMeasuresTheShapesOfThePassAndGoesOnWithWhatWasChosen) {
  const data::testing::TempDir folder;
  const auto config = fp8_config(folder, "auto", "run");
  const auto model = models::build_model(config.model);
  std::vector<LinearShape> measured;
  const Fp8Start start{.samples = 6, .cp = 2, .measure = [&](const LinearShape& shape) {
                         measured.push_back(shape);
                         return faster_where_wide(shape);
                       }};
  auto made = make_fp8(config, *model, at::kCPU, start);
  ASSERT_NE(made, nullptr);
  // Four patches and the class token of six samples, half of them here.
  EXPECT_THAT(measured, ElementsAre(LinearShape{15, 32, 96}, LinearShape{15, 32, 32},
                                    LinearShape{15, 32, 128}, LinearShape{15, 128, 32}));
  EXPECT_THAT(made->names(), ElementsAre("blocks.0.mlp.fc2", "blocks.1.mlp.fc2"));
  const nlohmann::json saved = {{"layers", {"blocks.1.attn.qkv"}}};
  made.reset();
  auto resumed = start;
  resumed.saved = &saved;
  EXPECT_THAT(make_fp8(config, *model, at::kCPU, resumed)->names(),
              ElementsAre("blocks.1.attn.qkv"));
  EXPECT_EQ(measured.size(), 4u);
}

TEST(Fp8Test, AutoIsOffWhereTheDeviceHasNone) {
  const data::testing::TempDir folder;
  const auto config = fp8_config(folder, "auto", "auto");
  EXPECT_EQ(make_fp8(config, *models::build_model(config.model), at::kCPU, {}), nullptr);
  const auto plain = fp8_config(folder, "off", "off");
  fit(config);
  fit(plain);
  testing::expect_same_run(config.run.dir, plain.run.dir);
}

TEST(Fp8Test, MeasuresBothKinds) {
  const auto seconds = measure_linear({20, 32, 48}, at::kCPU);
  EXPECT_GT(seconds.bfloat16, 0);
  EXPECT_GT(seconds.fp8, 0);
}

}  // namespace
}  // namespace fovea::train
