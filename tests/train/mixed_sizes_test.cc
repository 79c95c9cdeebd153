// Training on images of mixed sizes, packed: what is learned, resumed, split and predicted.
#include "tests/train/mixed_sizes.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fovea/core/error.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/session.h"
#include "fovea/train/step/step.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"
#include "tests/support/tolerance.h"
#include "tests/train/run_check.h"
#include "tests/train/step_gradients.h"

namespace fovea::train {
namespace {

using ::testing::HasSubstr;

// Gradients of the first batch in float64, by name.
support::NamedTensors mixed_gradients(const TrainConfig& config, int64_t micro_batch_size) {
  const auto source = open_training_data(config);
  const auto model = make_model(config, {});
  model->to(at::kDouble);
  const auto task = make_task(config.task, *model);
  const auto optimizer = make_optimizer(config, *model);
  StepOptions options{.seed = 7, .micro_batch_size = micro_batch_size};
  options.compute.dtype = at::kDouble;
  auto batch = source.loader->next();
  testing::gradients_of_step(*model, *task, *optimizer, batch, 3, options);
  support::NamedTensors gradients;
  for (const auto& item : model->named_parameters()) {
    gradients[item.key()] = item.value().grad().clone();
  }
  return gradients;
}

TEST(MixedSizesTest, ABatchHoldsImagesOfManyGridsAndNoPadding) {
  const data::testing::TempDir folder;
  auto batch = open_training_data(testing::mixed_sizes_config(folder)).loader->next();
  const auto tensors = to_tensors(batch, 2, 9, {});
  ASSERT_EQ(tensors.packed.grids.size(), 7U);
  int64_t total = 0;
  for (const auto length : tensors.packed.lengths()) {
    EXPECT_LE(length, 20);
    total += length;
  }
  EXPECT_EQ(tensors.packed.patches.sizes(), (at::IntArrayRef{1, total, 16}));
  const std::set grids(tensors.packed.grids.begin(), tensors.packed.grids.end());
  EXPECT_GT(grids.size(), 3U);
  // The first image of these is the third of the batch.
  const auto one = to_tensors(batch, 2, 3, {});
  EXPECT_TRUE(
      one.packed.patches.equal(tensors.packed.patches.narrow(1, 0, one.packed.lengths().front())));
}

TEST(MixedSizesTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  const data::testing::TempDir folder;
  const auto config = testing::mixed_sizes_config(folder);
  const auto expected = mixed_gradients(config, 0);
  for (const int64_t micro : {1, 5}) {
    EXPECT_PARITY(mixed_gradients(config, micro), expected, at::kDouble);
  }
}

TEST(MixedSizesTest, LearnsAndResumesExactly) {
  const data::testing::TempDir folder;
  auto config = testing::mixed_sizes_config(folder);
  const auto result = testing::fit(config);
  EXPECT_GT(result.last_eval.at("top1"), 80);
  auto cut = config;
  cut.run.dir = folder.file("cut");
  testing::fit(cut);
  testing::go_back_to(cut.run.dir, 40);
  cut.data.threads = 3;
  testing::fit(cut);
  testing::expect_same_run(cut.run.dir, config.run.dir);
}

TEST(MixedSizesTest, PredictsImagesOfAnySizeAsTheEvaluationDoes) {
  const data::testing::TempDir folder;
  auto config = testing::mixed_sizes_config(folder);
  config.trainer.max_steps = 10;
  testing::fit(config);
  const auto inference = load_inference(config.run.dir, {.device = "cpu"});
  EXPECT_EQ(inference.class_names, (std::vector<std::string>{"left", "top"}));
  // A pair as a batch, each alone, and one that is larger than all of the training.
  const auto files = inference.open_files(
      {folder.file("val/left/0.png"), folder.file("val/top/1.png"),
       folder.write("large.png", data::encode_png({90, 40, 1, std::vector<uint8_t>(3600, 200)}))});
  const at::NoGradGuard no_grad;
  const auto all = forward(*inference.model, inference.prepare(files, 0, 3).tensors);
  ASSERT_EQ(all.sizes(), (at::IntArrayRef{3, 2}));
  for (int64_t i = 0; i < 3; ++i) {
    const auto alone = forward(*inference.model, inference.prepare(files, i, 1).tensors);
    support::expect_close(alone[0], all[i], at::kFloat, std::to_string(i));
  }
  // As an image of its own, for what looks at one at a time.
  const auto image = inference.preprocess(files, 2, 1);
  EXPECT_EQ(image.sizes(), (at::IntArrayRef{1, 1, 24, 12}));
  support::expect_close(inference.model->forward(image)[0], all[2], at::kFloat, "as an image");
  EXPECT_THROW(inference.preprocess(files, 0, 2), Error);
}

TEST(MixedSizesTest, AProbeOnItsFeaturesIsTheOneThatRunsTheModel) {
  const data::testing::TempDir folder;
  auto config = testing::mixed_sizes_config(folder, "cached");
  auto& train = *config.data.train->get_if<data::FolderConfig>();
  train.transforms = config.data.val->get_if<data::FolderConfig>()->transforms;
  config.trainer.max_steps = 12;
  config.trainer.freeze = {"backbone"};
  config.trainer.cache_features = "exact";
  auto uncached = config;
  uncached.run.dir = folder.file("uncached");
  uncached.trainer.cache_features = "none";
  const auto left = testing::fit(config).last_eval, right = testing::fit(uncached).last_eval;
  const auto tolerance = support::Tolerance::for_dtype(at::kFloat);
  EXPECT_NEAR(left.at("loss"), right.at("loss"), 10 * tolerance.rtol);
}

TEST(MixedSizesTest, SaysWhatIsMissing) {
  const data::testing::TempDir folder;
  const auto config = testing::mixed_sizes_config(folder);
  const auto fault_of = [](const TrainConfig& run) {
    return data::testing::message_of<ConfigError>([&] { open_training_data(run); });
  };
  auto plain = config;
  plain.data.train->get_if<data::FolderConfig>()->transforms = {
      {data::ResizeConfig{.size = {16, 16}}}};
  EXPECT_THAT(fault_of(plain), HasSubstr("name: resize_to_patches, patch_size: 4"));
  auto mixed = config;
  mixed.data.mixup = {.mixup_alpha = 1.0};
  EXPECT_THAT(fault_of(mixed), HasSubstr("different sizes"));
  auto on_grid = config;
  auto vit = *on_grid.model.get_if<models::VitConfig>();
  vit.patching = "grid";
  on_grid.model = {vit};
  EXPECT_THAT(fault_of(on_grid), HasSubstr("patching: packed"));
}

}  // namespace
}  // namespace fovea::train
