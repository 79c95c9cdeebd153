#include "fovea/train/tasks/masked_autoencoding.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/data/image/png.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/patchify.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/session.h"
#include "fovea/train/trainer.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

models::MaeConfig tiny_mae() {
  models::MaeConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = {8};
  vit.patch_size = {2};
  vit.in_chans = 1;
  vit.embed_dim = 32;
  vit.depth = 2;
  vit.num_heads = 2;
  vit.drop_path_rate = 0.2;
  vit.proj_drop_rate = 0.1;
  config.mask_ratio = 0.5;
  config.decoder_embed_dim = 16;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  return config;
}

TrainConfig tiny_mae_config(const data::testing::TempDir& folder, const std::string& run = "run") {
  auto config = testing::tiny_config(folder, run);
  config.model = {tiny_mae()};
  config.task = {MaskedAutoencodingConfig{}};
  return config;
}

std::unique_ptr<models::Mae> mae_for(const models::MaeConfig& config, at::ScalarType dtype) {
  auto model = std::make_unique<models::Mae>(config);
  model->init_weights(1);
  model->to(dtype);
  return model;
}

TensorBatch batch_of_images(const at::Tensor& images) {
  TensorBatch batch;
  batch.images = images;
  batch.rows = at::arange(images.size(0));
  batch.indices = at::arange(images.size(0)) + 100;
  return batch;
}

TensorBatch rows_between(const TensorBatch& batch, int64_t begin, int64_t end) {
  TensorBatch part;
  part.images = batch.images.narrow(0, begin, end - begin);
  part.rows = batch.rows.narrow(0, begin, end - begin);
  part.indices = batch.indices.narrow(0, begin, end - begin);
  if (batch.weights.defined()) part.weights = batch.weights.narrow(0, begin, end - begin);
  return part;
}

// Gradients of the mean loss over `batch`, in passes that end at these rows.
support::NamedTensors gradients_in_passes(models::Mae& model, const Task& task,
                                          const TensorBatch& batch,
                                          const std::vector<int64_t>& ends) {
  model.zero_grad();
  double weight = 0;
  int64_t begin = 0;
  for (const auto end : ends) {
    const auto part = rows_between(batch, begin, end);
    const nn::StepScope scope(7, 3, part.rows);
    const auto parts = task.loss(model, part);
    parts.loss_sum.backward();
    weight += parts.weight;
    begin = end;
  }
  support::NamedTensors gradients;
  for (const auto& item : model.named_parameters()) {
    if (item.value().grad().defined()) gradients[item.key()] = item.value().grad() / weight;
  }
  return gradients;
}

TEST(MaskedAutoencodingTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  const auto model = mae_for(tiny_mae(), at::kDouble);
  for (const bool is_norm : {false, true}) {
    for (const auto* loss_on : {"masked", "all"}) {
      const MaskedAutoencodingTask task({.norm_pix_loss = is_norm, .loss_on = loss_on}, *model);
      auto batch = batch_of_images(support::random({8, 1, 8, 8}, at::kDouble, 1));
      batch.weights = at::tensor({1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0}, at::kFloat);
      const auto whole = gradients_in_passes(*model, task, batch, {8});
      for (const std::vector<int64_t>& ends : {std::vector<int64_t>{4, 8}, {3, 8}, {1, 2, 8}}) {
        const auto parts = gradients_in_passes(*model, task, batch, ends);
        EXPECT_PARITY(parts, whole, at::kDouble);
      }
    }
  }
}

TEST(MaskedAutoencodingTest, WeighsPatchesThatCount) {
  const auto model = mae_for(tiny_mae(), at::kFloat);
  auto batch = batch_of_images(support::random({4, 1, 8, 8}, at::kFloat, 1));
  batch.weights = at::tensor({1.0, 1.0, 0.0, 1.0}, at::kFloat);
  model->eval();
  const at::NoGradGuard no_grad;
  const MaskedAutoencodingTask masked({}, *model), all({.loss_on = "all"}, *model);
  EXPECT_EQ(masked.loss(*model, batch).weight, 3 * 8);
  EXPECT_EQ(all.loss(*model, batch).weight, 3 * 16);
}

// The published formula, value by value.
TEST(MaskedAutoencodingTest, NormalisesEachPatchByItself) {
  const auto images = support::random({2, 3, 4, 8}, at::kDouble, 1) * 5 + 2;
  const auto patches = nn::patchify(images, {2, 4}).contiguous();
  const auto targets = autoencoding_targets(images, {2, 4}, true).contiguous();
  const auto values = patches.accessor<double, 3>(), found = targets.accessor<double, 3>();
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t n = 0; n < 4; ++n) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < 24; ++i) mean += values[b][n][i] / 24;
      for (int64_t i = 0; i < 24; ++i) variance += std::pow(values[b][n][i] - mean, 2) / 23;
      for (int64_t i = 0; i < 24; ++i) {
        EXPECT_NEAR(found[b][n][i], (values[b][n][i] - mean) / std::sqrt(variance + 1e-6), 1e-12);
      }
    }
  }
}

TEST(MaskedAutoencodingTest, PutsPredictionsWhereTheImageIsMasked) {
  const auto images = support::random({2, 1, 4, 4}, at::kFloat, 1);
  const auto mask = at::tensor({1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0}, at::kFloat).view({2, 4});
  const auto predictions = at::full({2, 4, 4}, 9.0);
  const auto restored = nn::patchify(reconstruct(images, predictions, mask, {2, 2}, false), {2, 2});
  const auto original = nn::patchify(images, {2, 2});
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t n = 0; n < 4; ++n) {
      const bool is_masked = mask[b][n].item<double>() > 0;
      EXPECT_TRUE(restored[b][n].equal(is_masked ? predictions[b][n] : original[b][n]));
    }
  }
  // The true targets come back as the true image.
  const auto targets = autoencoding_targets(images, {2, 2}, true);
  support::expect_close(reconstruct(images, targets, at::ones({2, 4}), {2, 2}, true), images,
                        at::kFloat, "image");
}

std::map<std::string, double> metrics_in_batches(models::Mae& model, const Task& task,
                                                 const TensorBatch& batch,
                                                 const std::vector<int64_t>& ends) {
  const at::NoGradGuard no_grad;
  model.eval();
  const auto evaluation = task.start_evaluation();
  int64_t begin = 0;
  for (const auto end : ends) {
    const auto part = rows_between(batch, begin, end);
    evaluation->add(part, task.loss(model, part));
    begin = end;
  }
  return evaluation->metrics();
}

// Masks come from the samples, not from their place in a batch.
TEST(MaskedAutoencodingTest, EvaluationIsTheSameForAnyBatches) {
  const auto model = mae_for(tiny_mae(), at::kDouble);
  const MaskedAutoencodingTask task({.norm_pix_loss = true}, *model);
  const auto batch = batch_of_images(support::random({7, 1, 8, 8}, at::kDouble, 1));
  const auto whole = metrics_in_batches(*model, task, batch, {7});
  for (const std::vector<int64_t>& ends : {std::vector<int64_t>{7}, {1, 3, 7}, {6, 7}}) {
    const auto found = metrics_in_batches(*model, task, batch, ends);
    for (const auto& [name, value] : whole) EXPECT_NEAR(found.at(name), value, 1e-10) << name;
  }
  auto others = batch;
  others.indices = batch.indices + 1;
  EXPECT_NE(metrics_in_batches(*model, task, others, {7}).at("loss"), whole.at("loss"));
}

// Against plain loops over the values.
TEST(MaskedAutoencodingTest, MetricsAreThoseOfPlainLoops) {
  const auto model = mae_for(tiny_mae(), at::kDouble);
  const MaskedAutoencodingTask task({}, *model);
  auto batch = batch_of_images(support::random({6, 1, 8, 8}, at::kDouble, 1));
  batch.weights = at::tensor({1.0, 1.0, 1.0, 0.0, 1.0, 1.0}, at::kFloat);
  const auto metrics = metrics_in_batches(*model, task, batch, {4, 6});
  const auto ids = keep_patches_of_samples(tiny_mae(), batch.indices, 16);
  const at::NoGradGuard no_grad;
  const auto predictions = model->predict(batch.images, {ids});
  const auto patches = nn::patchify(batch.images, {2, 2});
  const auto mask = models::patch_mask(ids, 16);
  double error = 0, around_mean = 0, count = 0;
  for (int64_t n = 0; n < 16; ++n) {
    for (int64_t i = 0; i < 4; ++i) {
      std::vector<double> values;
      for (int64_t b = 0; b < 6; ++b) {
        if (b == 3 || mask[b][n].item<double>() == 0) continue;
        values.push_back(patches[b][n][i].item<double>());
        error += std::pow(values.back() - predictions[b][n][i].item<double>(), 2);
      }
      double mean = 0;
      for (const double value : values) mean += value / static_cast<double>(values.size());
      for (const double value : values) around_mean += std::pow(value - mean, 2);
      count += static_cast<double>(values.size());
    }
  }
  ASSERT_EQ(count, 5 * 8 * 4);
  EXPECT_NEAR(metrics.at("loss"), error / count, 1e-10);
  EXPECT_NEAR(metrics.at("loss_mean_image"), around_mean / count, 1e-10);
  const double range = (batch.images.max() - batch.images.min()).item<double>();
  EXPECT_NEAR(metrics.at("psnr"), 10 * std::log10(range * range / (error / count)), 1e-9);
}

double last_eval_of(TrainConfig config, int64_t steps, const char* metric) {
  config.run.dir += fmt::format("_{}", steps);
  config.trainer.max_steps = steps;
  config.trainer.eval_every_epochs = 0;  // at the end alone
  config.checkpoint.every_steps = steps;
  return Trainer(config, ProgressLine::Mode::kSilent).fit().last_eval.at(metric);
}

// Better than the mean image: a masked quarter follows from the seen ones.
TEST(MaskedAutoencodingTest, LearnsAndLeavesPictures) {
  const data::testing::TempDir folder;
  auto config = tiny_mae_config(folder);
  auto mae = tiny_mae();
  mae.encoder.vit.drop_path_rate = mae.encoder.vit.proj_drop_rate = 0;
  mae.decoder_embed_dim = 32;
  config.model = {mae};
  optim::AdamWConfig adamw;
  adamw.lr = 5e-3;
  config.optim = {adamw};
  const double first = last_eval_of(config, 1, "loss");
  const double last = last_eval_of(config, 300, "loss");
  EXPECT_LT(last, 0.5 * first);
  EXPECT_LT(last, 0.8 * last_eval_of(config, 300, "loss_mean_image"));
  const auto file = read_evaluation_file(config.run.dir + "_300/evaluation.json");
  ASSERT_EQ(file.pictures.size(), 8U);
  data::Image image;
  const auto& png = file.pictures.front().image_png;
  data::decode_png({reinterpret_cast<const uint8_t*>(png.data()), png.size()}, image);
  EXPECT_EQ(image.height, 112);
  EXPECT_EQ(image.width, 3 * 112 + 2 * 4);
  EXPECT_THAT(file.pictures.front().caption, HasSubstr("input, masked, reconstruction; loss"));
  EXPECT_TRUE(fs::exists(config.run.dir + "_300/report.html"));
}

TEST(MaskedAutoencodingTest, LearnsVolumes) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_volume_config(folder);
  auto mae = tiny_mae();
  mae.encoder.vit.img_size = {8, 8, 8};
  mae.encoder.vit.patch_size = {4, 4, 4};
  mae.encoder.vit.embed_dim = 24;
  mae.decoder_embed_dim = 12;
  config.model = {mae};
  config.task = {MaskedAutoencodingConfig{}};
  const double first = last_eval_of(config, 1, "loss");
  EXPECT_LT(last_eval_of(config, 150, "loss"), 0.5 * first);
  const auto file = read_evaluation_file(config.run.dir + "_150/evaluation.json");
  EXPECT_EQ(file.pictures.size(), 8U) << "of 10 samples";
}

template <class Body>
std::string config_error_of(Body&& body) {
  return data::testing::message_of<ConfigError>(body);
}

TEST(MaskedAutoencodingTest, RefusesWhatDoesNotFit) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  config.task = {MaskedAutoencodingConfig{}};
  EXPECT_THAT(config_error_of([&] { Trainer(config, ProgressLine::Mode::kSilent).fit(); }),
              HasSubstr("expected model.name: mae"));
  auto mae = tiny_mae();
  mae.linear_decoder = true;
  const models::Mae linear(mae);
  EXPECT_THAT(config_error_of([&] { MaskedAutoencodingTask({}, linear); }),
              HasSubstr("the encoder would learn nothing; use loss_on: all"));
  EXPECT_NO_THROW(MaskedAutoencodingTask({.loss_on = "all"}, linear));
  mae = tiny_mae();
  mae.encoder.vit.patch_size = {1};
  const models::Mae points(mae);
  EXPECT_THAT(config_error_of([&] { MaskedAutoencodingTask({.norm_pix_loss = true}, points); }),
              HasSubstr("patches of one value"));
  EXPECT_NO_THROW(MaskedAutoencodingTask({}, points));
}

}  // namespace
}  // namespace fovea::train
