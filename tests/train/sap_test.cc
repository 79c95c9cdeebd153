// SAP as a run: patches in, Dice of whole volumes out.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/one_hot.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/data/loader_setup.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/session.h"
#include "fovea/train/trainer.h"
#include "tests/support/parity.h"
#include "tests/support/tolerance.h"
#include "tests/train/step_gradients.h"
#include "tests/train/step_pieces.h"
#include "tests/train/tiny_segmentation.h"

namespace fovea::train {
namespace {

TrainConfig tiny_sap_run(const data::testing::TempDir& folder) {
  auto config = testing::tiny_segmentation_config(folder);
  models::SapConfig sap;
  sap.encoder.vit.img_size = {8, 8, 8};
  sap.encoder.vit.patch_size = {2};
  sap.encoder.vit.fixed_length = 50;
  sap.encoder.vit.in_chans = 1;
  sap.encoder.vit.embed_dim = 24;
  sap.encoder.vit.depth = 2;
  sap.encoder.vit.num_heads = 2;
  sap.num_classes = 3;
  sap.decoder_dim = 16;
  config.model = {sap};
  config.data.adaptive_patching = data::AdaptivePatchingConfig{
      .fixed_length = 50, .patch_size = 2, .criterion = "variance", .smoothing = {0}};
  config.data.adaptive_patching->value_range = {-1, 1};
  return config;
}

struct SapFixture : testing::StepPieces {
  SapFixture() : StepPieces(tiny_sap_run) {}
};

TEST(SapRunTest, LearnsAndIsScoredOnWholeVolumes) {
  const data::testing::TempDir folder;
  auto config = tiny_sap_run(folder);
  config.trainer.max_steps = 60;
  auto validation = open_validation_data(config, {});
  auto model = make_model(config, {});
  const auto task = make_task(config.task, *model);
  const auto before = evaluate(*model, *task, *validation.loader, {})->metrics();
  const auto result = Trainer(config, ProgressLine::Mode::kSilent).fit();
  EXPECT_LT(result.last_eval.at("loss"), 0.8 * before.at("loss"));
  EXPECT_GT(result.last_eval.at("dice"), before.at("dice") + 0.2);
}

TEST(SapRunTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  SapFixture fixture;
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

// Classes that stand in the patches come back on the voxels of the volume.
TEST(SapRunTest, LogitsOfPatchesLieOnTheirLeaves) {
  SapFixture fixture;
  auto batch = fixture.source.loader->next();
  const auto tensors = to_tensors(batch, 0, batch.size(), {});
  const auto classes = tensors.patch_labels.clamp_min(0);                     // [B, L, S]
  const auto logits = at::one_hot(classes, 3).movedim(-1, 1).to(at::kFloat);  // [B, 3, L, S]
  const auto whole = logits_of_patches(logits, tensors.trees, {8, 8, 8}).argmax(1);
  const auto agreement = whole.eq(tensors.masks).to(at::kFloat).mean().item<double>();
  EXPECT_GT(agreement, 0.95);  // leaves larger than a patch lose what is smaller
  const auto other = logits_of_patches(logits.flip(0), tensors.trees, {8, 8, 8}).argmax(1);
  EXPECT_LT(other.eq(tensors.masks).to(at::kFloat).mean().item<double>(), agreement);
}

// Each window of a larger volume is predicted with a tree of its own, as a volume of its size is.
TEST(SapRunTest, LargerVolumesAreWindowsWithTreesOfTheirOwn) {
  const at::NoGradGuard no_grad;
  SapFixture fixture;
  fixture.model->eval();
  auto batch = fixture.source.loader->next();
  auto tensors = to_tensors(batch, 0, 2, {});
  const SlidingWindowConfig side_by_side{.overlap = 0, .blend = "constant"};
  const auto apart = segment_whole(*fixture.model, tensors, side_by_side);  // [2, 3, 8, 8, 8]
  auto whole = tensors;
  whole.images = at::cat({tensors.images[0], tensors.images[1]}, 1).unsqueeze(0);
  const auto together = segment_whole(*fixture.model, whole, side_by_side);  // [1, 3, 16, 8, 8]
  EXPECT_PARITY(support::NamedTensors({{"logits", together.squeeze(0)}}),
                support::NamedTensors({{"logits", at::cat({apart[0], apart[1]}, 1)}}), at::kFloat);
}

// SAP computes with patches alone, so that its steps and evaluations send neither images nor masks.
TEST(SapRunTest, ImagesAndMasksStayWithTheLoader) {
  SapFixture fixture;
  auto batch = fixture.source.loader->next();
  const StepOptions options{.compute = {.dtype = at::kBFloat16}};
  const StepParts parts{.model = *fixture.model,
                        .task = *fixture.task,
                        .optimizer = *fixture.optimizer,
                        .options = options};
  const auto of_step = input_of(batch, parts).tensors(0, 2);
  EXPECT_EQ(of_step.images.const_data_ptr(), batch.images.data());
  EXPECT_EQ(of_step.masks.const_data_ptr(), batch.masks.data());
  EXPECT_FALSE(of_step.patches.images.defined());

  const auto stayed = to_tensors(batch, 0, 2, {}, images_for(*fixture.model, *fixture.task));
  const auto sent = to_tensors(batch, 0, 2, {});
  ASSERT_TRUE(sent.patches.images.defined());
  for (const bool is_training : {true, false}) {
    fixture.model->train(is_training);
    const nn::StepScope step(/*seed=*/1, /*step=*/0, sent.rows);
    const auto of_stayed = fixture.task->loss(*fixture.model, stayed);
    const auto of_sent = fixture.task->loss(*fixture.model, sent);
    EXPECT_TRUE(at::equal(of_stayed.loss_sum, of_sent.loss_sum));
    EXPECT_TRUE(at::equal(of_stayed.outputs, of_sent.outputs));
    if (is_training) continue;
    const auto metrics = [&](const TensorBatch& tensors, const LossParts& loss) {
      auto evaluation = fixture.task->start_evaluation();
      evaluation->add(tensors, loss);
      return evaluation->metrics();
    };
    EXPECT_EQ(metrics(stayed, of_stayed), metrics(sent, of_sent));
  }
}

TEST(SapRunTest, ModelAndDataMustAgreeOnPatches) {
  const data::testing::TempDir folder;
  auto config = tiny_sap_run(folder);
  config.data.adaptive_patching.reset();
  EXPECT_THROW(open_training_data(config), ConfigError);
  config = testing::tiny_segmentation_config(folder);
  config.data.adaptive_patching = data::AdaptivePatchingConfig{};
  EXPECT_THROW(open_training_data(config), ConfigError);
}

}  // namespace
}  // namespace fovea::train
