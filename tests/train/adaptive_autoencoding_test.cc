// Masked autoencoding of adaptive patches.
#include "fovea/train/tasks/adaptive_autoencoding.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/data/image/png.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/evaluate/patch_images.h"
#include "fovea/train/session.h"
#include "fovea/train/trainer.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/parity.h"
#include "tests/train/step_gradients.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using ::testing::HasSubstr;

models::MaeConfig tiny_adaptive_mae() {
  models::MaeConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = {8};
  vit.patch_size = {2};
  vit.patching = "adaptive";
  vit.fixed_length = 14;  // trees have 13 leaves
  vit.pos_embed = "size_and_center";
  vit.in_chans = 1;
  vit.embed_dim = 32;
  vit.depth = 2;
  vit.num_heads = 2;
  config.mask_ratio = 0.5;
  config.decoder_embed_dim = 32;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  config.decoder_pos_embed = "size_and_center";
  return config;
}

data::AdaptivePatchingConfig tiny_patching() {
  return {.fixed_length = 14, .patch_size = 2, .criterion = "variance", .smoothing = {0}};
}

TrainConfig adaptive_mae_run(const data::testing::TempDir& folder) {
  auto config = testing::tiny_config(folder);
  config.model = {tiny_adaptive_mae()};
  config.task = {MaskedAutoencodingConfig{}};
  config.data.adaptive_patching = tiny_patching();
  return config;
}

// A run's model, task and first batch.
struct AdaptiveFixture {
  explicit AdaptiveFixture(const MaskedAutoencodingConfig& task_config = {}) {
    config.task = {task_config};
    source = open_training_data(config);
    model = make_model(config, {});
    task = make_task(config.task, *model);
    batch = source.loader->next();
  }
  models::Mae& mae() { return dynamic_cast<models::Mae&>(*model); }
  TensorBatch tensors() { return to_tensors(batch, 0, batch.size(), {}); }

  data::testing::TempDir folder;
  TrainConfig config = adaptive_mae_run(folder);
  DatasetWithLoader source;
  models::ModelPtr model;
  std::unique_ptr<Task> task;
  data::Batch batch;
};

TEST(AdaptiveAutoencodingTest, ImagesAreSentWhereTheLossIsOnThem) {
  AdaptiveFixture in_tokens, in_image({.loss_space = "image"});
  EXPECT_EQ(images_for(*in_tokens.model, *in_tokens.task), PatchedImages::kWithLoader);
  EXPECT_EQ(images_for(*in_image.model, *in_image.task), PatchedImages::kOnDevice);
  // An evaluation draws images as the model saw them, wherever they lie.
  const ComputeOptions compute{.dtype = at::kBFloat16};
  const auto sent = to_tensors(in_tokens.batch, 0, 2, compute);
  const auto stayed = to_tensors(in_tokens.batch, 0, 2, compute, PatchedImages::kWithLoader);
  EXPECT_EQ(stayed.images.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(images_on_host(stayed), images_on_host(sent)));
  EXPECT_TRUE(at::equal(images_on_device(stayed), sent.images));
}

// A tree whose leaves are these boxes, which together are a square of `side` pixels.
data::PatchTree tree_of(std::vector<data::TreeBox> leaves, int32_t side, bool is_volume = false) {
  data::PatchTree tree;
  tree.size = {is_volume ? side : 1, side, side};
  tree.is_volume = is_volume;
  tree.leaves = std::move(leaves);
  return tree;
}

data::TreeBox square_box(int32_t y, int32_t x, int32_t side) {
  return {.y = y, .x = x, .height = side, .width = side};
}

// Squares of 8, 4, 2 and of one patch's own side, 4, on 16 x 16 pixels.
std::vector<data::PatchTree> two_trees() {
  return {
      tree_of({square_box(8, 0, 8), square_box(8, 8, 8), square_box(0, 0, 8), square_box(4, 8, 4),
               square_box(4, 12, 4), square_box(0, 8, 4), square_box(2, 12, 2),
               square_box(2, 14, 2), square_box(0, 12, 2), square_box(0, 14, 2)},
              16),
      tree_of({square_box(0, 0, 16)}, 16)};
}

// Against torch's bicubic resizing, and the mean of blocks where leaves are smaller than a patch.
TEST(PatchImagesTest, ErrorsAreThoseOfTorchsResizing) {
  const auto trees = two_trees();
  const auto values = support::random({2, 3, 11, 16}, at::kDouble, 1);
  const auto images = support::random({2, 3, 16, 16}, at::kDouble, 2);
  const auto found = patch_errors_in_image(values, images, trees);
  ASSERT_EQ(found.sizes(), at::IntArrayRef({2, 11}));
  const auto expected = at::zeros({2, 11}, at::kDouble);
  for (int64_t b = 0; b < 2; ++b) {
    const auto& leaves = trees[static_cast<size_t>(b)].leaves;
    for (size_t l = 0; l < leaves.size(); ++l) {
      const auto& box = leaves[l];
      const auto patch = values[b].select(1, static_cast<int64_t>(l)).view({1, 3, 4, 4});
      const auto resized = box.height < 4
                               ? at::adaptive_avg_pool2d(patch, {box.height, box.width})
                               : at::upsample_bicubic2d(patch, {box.height, box.width}, false);
      const auto part = images[b].narrow(1, box.y, box.height).narrow(2, box.x, box.width);
      expected[b][static_cast<int64_t>(l)] = (resized[0] - part).square().mean();
    }
  }
  support::expect_close(found, expected, at::kFloat, "errors");  // its weights are float32
}

TEST(PatchImagesTest, ErrorsOfVolumesAreThoseOfTorchsResizing) {
  std::vector<data::TreeBox> leaves;
  for (int32_t i = 0; i < 8; ++i) {
    leaves.push_back(
        {.z = i / 4 * 4, .y = i / 2 % 2 * 4, .x = i % 2 * 4, .depth = 4, .height = 4, .width = 4});
  }
  const std::vector<data::PatchTree> trees = {tree_of(leaves, 8, /*is_volume=*/true)};
  const auto values = support::random({1, 2, 9, 8}, at::kDouble, 1);
  const auto images = support::random({1, 2, 8, 8, 8}, at::kDouble, 2);
  const auto found = patch_errors_in_image(values, images, trees);
  const auto expected = at::zeros({1, 9}, at::kDouble);
  for (int64_t l = 0; l < 8; ++l) {
    const auto& box = leaves[static_cast<size_t>(l)];
    const auto patch = values[0].select(1, l).view({1, 2, 2, 2, 2});
    const auto resized = at::upsample_trilinear3d(patch, {4, 4, 4}, false);
    const auto part = images[0].narrow(1, box.z, 4).narrow(2, box.y, 4).narrow(3, box.x, 4);
    expected[0][l] = (resized[0] - part).square().mean();
  }
  support::expect_close(found, expected, at::kFloat, "errors");
}

TEST(PatchImagesTest, GradientsOfTheErrorsAreDerivatives) {
  const auto trees = two_trees();
  const auto images = support::random({2, 1, 16, 16}, at::kDouble, 2);
  support::expect_gradients_are_derivatives(
      [&](const auto& inputs) { return patch_errors_in_image(inputs[0], images, trees); },
      {support::random({2, 1, 10, 16}, at::kDouble, 1)});
}

// Each channel along a tree of its own: the mean over the channels that have such a leaf.
TEST(PatchImagesTest, ErrorsAlongATreeForEachChannel) {
  const std::vector<data::PatchTree> trees = {two_trees()[0], two_trees()[1]};  // one sample
  const auto values = support::random({1, 2, 10, 16}, at::kDouble, 1);
  const auto images = support::random({1, 2, 16, 16}, at::kDouble, 2);
  const auto found = patch_errors_in_image(values, images, trees);
  const auto of_channel = [&](int64_t c) {
    return patch_errors_in_image(values.narrow(1, c, 1), images.narrow(1, c, 1),
                                 std::span(trees).subspan(static_cast<size_t>(c), 1));
  };
  const auto first = of_channel(0), second = of_channel(1);
  EXPECT_NEAR(found[0][0].item<double>(), ((first + second) / 2)[0][0].item<double>(), 1e-12);
  for (int64_t l = 1; l < 10; ++l)
    EXPECT_NEAR(found[0][l].item<double>(), first[0][l].item<double>(), 1e-12);
  const auto painted = images_of_patches(values, trees, {16, 16}, /*is_tree_of_channel=*/true);
  support::expect_close((painted[0][1] - images[0][1]).square().mean(), second[0][0], at::kFloat,
                        "the second channel");
}

// Padding counts for nothing, whatever is predicted there.
TEST(AdaptiveAutoencodingTest, CountsMaskedPatchesThatAreReal) {
  AdaptiveFixture fixture;
  const auto tensors = fixture.tensors();
  const auto is_real = models::real_patches(tensors.patches);
  ASSERT_EQ(is_real.sum().item<int64_t>(), 13 * 24) << "one of 14 patches is padding";
  fixture.model->eval();
  const auto parts = fixture.task->loss(*fixture.model, tensors);
  EXPECT_EQ(parts.weight, (13 - 6) * 24);
  const auto seen = see_patches_of_samples(tiny_adaptive_mae(), tensors.indices, tensors.patches);
  const auto mask = models::patch_mask(seen, is_real);
  const auto targets = tensors.patches.tokens.permute({0, 2, 3, 1}).flatten(2);
  const auto errors = (parts.outputs - targets).square().mean(-1);
  EXPECT_NEAR(parts.loss_sum.item<double>(), (errors * mask).sum().item<double>(), 1e-3);
  for (const auto& [loss_on, weight] :
       std::map<std::string, double>{{"all", 13 * 24}, {"all_and_padding", 14 * 24}}) {
    const MaskedAutoencodingTask task({.loss_on = loss_on}, *fixture.model);
    EXPECT_EQ(task.loss(*fixture.model, tensors).weight, weight);
  }
  auto weighted = tensors;
  weighted.weights = at::ones({24});
  weighted.weights.slice(0, 4).zero_();
  EXPECT_EQ(fixture.task->loss(*fixture.model, weighted).weight, 7 * 4);
}

TEST(AdaptiveAutoencodingTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  for (const MaskedAutoencodingConfig& task :
       {MaskedAutoencodingConfig{}, MaskedAutoencodingConfig{.norm_pix_loss = true},
        MaskedAutoencodingConfig{.loss_space = "image"}}) {
    AdaptiveFixture fixture(task);
    const auto optimizer = make_optimizer(fixture.config, *fixture.model);
    const auto gradients = [&](int64_t micro) {
      testing::gradients_of_step(*fixture.model, *fixture.task, *optimizer, fixture.batch, 3,
                                 {.micro_batch_size = micro});
      support::NamedTensors result;
      for (const auto& item : fixture.model->named_parameters())
        result[item.key()] = item.value().grad().detach().clone();
      return result;
    };
    const auto expected = gradients(0);
    EXPECT_PARITY(gradients(5), expected, at::kFloat);
    EXPECT_PARITY(gradients(1), expected, at::kFloat);
  }
}

std::map<std::string, double> metrics_of_parts(AdaptiveFixture& fixture,
                                               const std::vector<int64_t>& ends) {
  const at::NoGradGuard no_grad;
  fixture.model->eval();
  const auto evaluation = fixture.task->start_evaluation();
  int64_t begin = 0;
  for (const auto end : ends) {
    const auto part = to_tensors(fixture.batch, begin, end, {});
    evaluation->add(part, fixture.task->loss(*fixture.model, part));
    begin = end;
  }
  return evaluation->metrics();
}

TEST(AdaptiveAutoencodingTest, EvaluationIsTheSameForAnyBatches) {
  for (const std::string space : {"tokens", "image"}) {
    AdaptiveFixture fixture({.loss_space = space});
    const auto whole = metrics_of_parts(fixture, {24});
    EXPECT_EQ(whole.contains("loss_mean_image"), space == "tokens");
    for (const auto& [name, value] : metrics_of_parts(fixture, {1, 7, 24}))
      EXPECT_NEAR(value, whole.at(name), 1e-5 * std::abs(whole.at(name))) << name;
    const auto tensors = fixture.tensors();
    const auto parts = fixture.task->loss(*fixture.model, tensors);
    EXPECT_NEAR(whole.at("loss"), parts.loss_sum.item<double>() / parts.weight, 1e-5);
  }
}

TEST(AdaptiveAutoencodingTest, PaintsMaskedLeavesAndHidesThem) {
  AdaptiveFixture fixture;
  const auto tensors = fixture.tensors();
  const auto seen = see_patches_of_samples(tiny_adaptive_mae(), tensors.indices, tensors.patches);
  const auto mask = models::patch_mask(seen, models::real_patches(tensors.patches));
  const auto predictions = at::ones({24, 14, 4}) * 7;
  const auto pictures = restore_adaptive(tensors, predictions, seen, /*norm_pix_loss=*/false);
  for (int64_t b = 0; b < 24; ++b) {
    const auto& leaves = tensors.trees[static_cast<size_t>(b)].leaves;
    for (size_t l = 0; l < leaves.size(); ++l) {
      const auto& box = leaves[l];
      const auto part = [&](const at::Tensor& image) {
        return image[b].narrow(1, box.y, box.height).narrow(2, box.x, box.width);
      };
      const bool is_masked = mask[b][static_cast<int64_t>(l)].item<double>() > 0;
      EXPECT_EQ(part(pictures.hidden).isnan().all().item<bool>(), is_masked);
      if (is_masked) {
        EXPECT_LT((part(pictures.restored) - 7).abs().max().item<double>(), 1e-4);
      } else {
        EXPECT_TRUE(part(pictures.restored).equal(part(tensors.images)));
        EXPECT_TRUE(part(pictures.hidden).equal(part(tensors.images)));
      }
    }
  }
  // Leaves of a patch's own side come back as they were, also from normalised targets.
  const auto targets = adaptive_targets(tensors.patches.tokens, /*norm_pix_loss=*/true);
  const auto restored = restore_adaptive(tensors, targets, seen, /*norm_pix_loss=*/true).restored;
  int64_t compared = 0;
  for (int64_t b = 0; b < 24; ++b) {
    for (const auto& box : tensors.trees[static_cast<size_t>(b)].leaves) {
      if (box.height != 2 || box.width != 2) continue;
      const auto part = [&](const at::Tensor& image) {
        return image[b].narrow(1, box.y, 2).narrow(2, box.x, 2);
      };
      support::expect_close(part(restored), part(tensors.images), at::kFloat, "leaf");
      ++compared;
    }
  }
  EXPECT_GT(compared, 24);
}

double last_loss_of(TrainConfig config, int64_t steps) {
  config.run.dir += fmt::format("_{}", steps);
  config.trainer.max_steps = steps;
  config.trainer.eval_every_epochs = 0;  // at the end alone
  config.checkpoint.every_steps = steps;
  return Trainer(config, ProgressLine::Mode::kSilent).fit().last_eval.at("loss");
}

TEST(AdaptiveAutoencodingTest, LearnsAndLeavesPictures) {
  for (const std::string space : {"tokens", "image"}) {
    const data::testing::TempDir folder;
    auto config = adaptive_mae_run(folder);
    config.task = {MaskedAutoencodingConfig{.loss_space = space}};
    optim::AdamWConfig adamw;
    adamw.lr = 5e-3;
    config.optim = {adamw};
    const double first = last_loss_of(config, 1);
    EXPECT_LT(last_loss_of(config, 150), 0.6 * first) << space;
    const auto file = read_evaluation_file(config.run.dir + "_150/evaluation.json");
    ASSERT_EQ(file.pictures.size(), 8U);
    data::Image image;
    const auto& png = file.pictures.front().image_png;
    data::decode_png({reinterpret_cast<const uint8_t*>(png.data()), png.size()}, image);
    EXPECT_EQ(image.width, 3 * 112 + 2 * 4);
    EXPECT_THAT(file.pictures.front().caption, HasSubstr("input, masked, reconstruction; loss"));
  }
}

TEST(AdaptiveAutoencodingTest, LearnsVolumes) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_volume_config(folder);
  auto mae = tiny_adaptive_mae();
  mae.encoder.vit.img_size = {8, 8, 8};
  mae.encoder.vit.fixed_length = 20;  // trees have 15 leaves
  config.model = {mae};
  config.task = {MaskedAutoencodingConfig{}};
  config.data.adaptive_patching = tiny_patching();
  config.data.adaptive_patching->fixed_length = 20;
  config.data.adaptive_patching->value_range = {-1, 1};
  const double first = last_loss_of(config, 1);
  EXPECT_LT(last_loss_of(config, 100), 0.7 * first);
}

template <class Body>
std::string adaptive_refusal(Body&& body) {
  return data::testing::message_of<ConfigError>(body);
}

TEST(AdaptiveAutoencodingTest, RefusesWhatDoesNotFit) {
  const models::Mae adaptive(tiny_adaptive_mae());
  EXPECT_THAT(adaptive_refusal([&] {
                MaskedAutoencodingTask({.norm_pix_loss = true, .loss_space = "image"}, adaptive);
              }),
              HasSubstr("targets are no pixels"));
  auto config = tiny_adaptive_mae();
  config.encoder.vit.patching = "grid";
  config.encoder.vit.pos_embed = "sincos";
  config.decoder_pos_embed = "learn";
  const models::Mae grid(config);
  EXPECT_THAT(adaptive_refusal([&] { MaskedAutoencodingTask({.loss_space = "image"}, grid); }),
              HasSubstr("is for adaptive patches"));
  EXPECT_THAT(
      adaptive_refusal([&] { MaskedAutoencodingTask({.loss_on = "all_and_padding"}, grid); }),
      HasSubstr("use masked or all"));
  const data::testing::TempDir folder;
  auto run = adaptive_mae_run(folder);
  run.data.adaptive_patching.reset();
  EXPECT_THAT(adaptive_refusal([&] { open_training_data(run); }),
              HasSubstr("the model takes adaptive patches"));
}

}  // namespace
}  // namespace fovea::train
