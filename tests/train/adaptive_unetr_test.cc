// UNETR on adaptive patches as a run: logits of the image, windows with patches of their own.
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/data/batch/adaptive_patch_filler.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/session.h"
#include "fovea/train/tasks/segmentation.h"
#include "fovea/train/tasks/tensor_batch.h"
#include "fovea/train/trainer.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"
#include "tests/train/step_gradients.h"
#include "tests/train/step_pieces.h"
#include "tests/train/tiny_segmentation.h"

namespace fovea::train {
namespace {

using ::testing::HasSubstr;

TrainConfig tiny_adaptive_unetr(const data::testing::TempDir& folder) {
  auto config = testing::tiny_segmentation_config(folder);
  auto unetr = testing::tiny_unetr_config();
  unetr.encoder.vit.patching = "adaptive";
  unetr.encoder.vit.patch_size = {2};
  unetr.encoder.vit.fixed_length = 50;
  unetr.encoder.vit.pos_embed = "size_and_center";
  config.model = {unetr};
  config.data.adaptive_patching = data::AdaptivePatchingConfig{
      .fixed_length = 50, .patch_size = 2, .criterion = "variance", .smoothing = {0}};
  config.data.adaptive_patching->value_range = {-1, 1};
  return config;
}

struct AdaptiveUnetrFixture : testing::StepPieces {
  AdaptiveUnetrFixture() : StepPieces(tiny_adaptive_unetr) {}
};

TEST(AdaptiveUnetrRunTest, BatchesSayWhereLeavesLie) {
  AdaptiveUnetrFixture fixture;
  auto batch = fixture.source.loader->next();
  const auto where = images_for(*fixture.model, *fixture.task);
  const auto tensors = to_tensors(batch, 1, 3, {}, where);  // the model goes back to the images
  const auto boxes = tensors.patches.boxes;
  ASSERT_EQ(boxes.sizes(), (std::vector<int64_t>{2, 1, 50, 2, 3}));
  EXPECT_EQ(tensors.patches.images.data_ptr(), tensors.images.data_ptr());
  for (int64_t b = 0; b < 2; ++b) {
    const auto& tree = tensors.trees[static_cast<size_t>(b)];
    const auto first = boxes[b][0][0];
    const auto& leaf = tree.leaves.front();
    const auto expected = at::tensor({leaf.z, leaf.y, leaf.x, leaf.depth, leaf.height, leaf.width});
    EXPECT_TRUE(at::equal(first.flatten(), expected.to(at::kLong)));
    EXPECT_EQ(boxes[b].select(2, 1).prod(-1).sum().item<int64_t>(), 512);  // all voxels, once
    const auto is_padding = boxes[b][0].select(1, 1).prod(-1).eq(0);
    EXPECT_TRUE(at::equal(is_padding, tensors.patches.padding[b][0]));
    // Sizes and centres, x first, come from the same leaves.
    const auto middle = (boxes[b][0].select(1, 0) + boxes[b][0].select(1, 1) / 2.0).flip(-1);
    const auto real = is_padding.logical_not().unsqueeze(-1);
    support::expect_close((middle * real).to(at::kFloat), tensors.patches.centers[b][0] * real,
                          at::kFloat, "centres");
  }
}

TEST(AdaptiveUnetrRunTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  AdaptiveUnetrFixture fixture;
  auto batch = fixture.source.loader->next();
  const auto gradients = [&](int64_t micro) {
    testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer, batch, 0,
                               {.micro_batch_size = micro});
    support::NamedTensors result;
    for (const auto& item : fixture.model->named_parameters()) {
      result[item.key()] = item.value().grad().detach().clone();
    }
    return result;
  };
  const auto expected = gradients(0);
  EXPECT_PARITY(gradients(1), expected, at::kFloat);
  EXPECT_PARITY(gradients(3), expected, at::kFloat);
}

// A volume as large as one window is what the loader's own patches give.
TEST(AdaptiveUnetrRunTest, WindowsAreCutAsTheLoaderCutsSamples) {
  AdaptiveUnetrFixture fixture;
  fixture.model->eval();
  const at::NoGradGuard no_grad;
  auto batch = fixture.source.loader->next();
  const auto tensors = to_tensors(batch, 0, 1, {});
  ASSERT_NE(tensors.patching, nullptr);
  const auto values = tensors.images.contiguous();
  auto cut = data::cut_volumes(
      *tensors.patching, {values.const_data_ptr<float>(), static_cast<size_t>(values.numel())},
      values.sizes().vec());
  const auto own = to_tensors(cut, 0, 1, {});
  support::expect_same_bits(own.patches.tokens, tensors.patches.tokens, "tokens");
  support::expect_same_bits(own.patches.boxes, tensors.patches.boxes, "boxes");
  support::expect_same_bits(own.patches.centers, tensors.patches.centers, "centres");
  EXPECT_FALSE(own.masks.defined());
  support::expect_same_bits(segment_whole(*fixture.model, own, {}),
                            segment_whole(*fixture.model, tensors, {}), "logits");
}

// Two windows side by side without overlap are the two samples.
TEST(AdaptiveUnetrRunTest, LargerVolumesAreWindowsWithPatchesOfTheirOwn) {
  AdaptiveUnetrFixture fixture;
  fixture.model->eval();
  const at::NoGradGuard no_grad;
  auto batch = fixture.source.loader->next();
  auto tensors = to_tensors(batch, 0, 2, {});
  const auto apart = segment_whole(*fixture.model, tensors, {});  // [2, 3, 8, 8, 8]
  auto joined = to_tensors(batch, 0, 1, {});
  joined.images = at::cat({tensors.images[0], tensors.images[1]}, -1).unsqueeze(0);
  SlidingWindowConfig config;
  config.overlap = 0;
  config.blend = "constant";
  const auto whole = segment_whole(*fixture.model, joined, config);  // [1, 3, 8, 8, 16]
  const auto expected = at::cat({apart[0], apart[1]}, -1).unsqueeze(0);
  support::expect_close(whole, expected, at::kFloat, "logits");
}

// The bytes that images are cut by are not in a batch.
TEST(AdaptiveUnetrRunTest, ImagesOfAnotherSizeAreRefused) {
  AdaptiveUnetrFixture fixture;
  auto batch = fixture.source.loader->next();
  batch.patches.of_values.reset();
  auto tensors = to_tensors(batch, 0, 1, {});
  tensors.images = at::zeros({1, 1, 8, 8, 16});
  tensors.patches.images = tensors.images;
  try {
    segment_whole(*fixture.model, tensors, {});
    ADD_FAILURE() << "took another size";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("data.tiling"));
  }
}

TEST(AdaptiveUnetrRunTest, LearnsAndIsScoredOnWholeVolumes) {
  const data::testing::TempDir folder;
  auto config = tiny_adaptive_unetr(folder);
  config.trainer.max_steps = 60;
  auto validation = open_validation_data(config, {});
  auto model = make_model(config, {});
  const auto task = make_task(config.task, *model);
  const auto before = evaluate(*model, *task, *validation.loader, {})->metrics();
  const auto result = Trainer(config, ProgressLine::Mode::kSilent).fit();
  EXPECT_LT(result.last_eval.at("loss"), 0.8 * before.at("loss"));
  EXPECT_GT(result.last_eval.at("dice"), before.at("dice") + 0.2);
}

}  // namespace
}  // namespace fovea::train
