// The segmentation task: what it learns, how it is evaluated, what it refuses.
#include "fovea/train/tasks/segmentation.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "fovea/core/error.h"
#include "fovea/data/datasets/format.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/models/unetr.h"
#include "fovea/models/vit.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/session.h"
#include "fovea/train/step/step.h"
#include "fovea/train/tasks/own_metric.h"
#include "fovea/train/trainer.h"
#include "tests/support/parity.h"
#include "tests/train/step_gradients.h"
#include "tests/train/tiny_segmentation.h"

namespace fovea::train {
namespace {

using ::testing::HasSubstr;

struct SegmentationFixture {
  data::testing::TempDir folder;
  TrainConfig config = testing::tiny_segmentation_config(folder);

  SegmentationConfig& task() { return std::get<SegmentationConfig>(config.task.value); }
};

template <class Call>
std::string segmentation_message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(SegmentationTaskTest, LearnsAndIsEvaluatedOnWholeVolumes) {
  SegmentationFixture fixture;
  const auto before = [&] {
    const auto model = make_model(fixture.config, {});
    const auto task = make_task(fixture.config.task, *model);
    const auto source = open_validation_data(fixture.config, {});
    return evaluate(*model, *task, *source.loader, {})->metrics();
  }();
  const auto result = Trainer(fixture.config, ProgressLine::Mode::kSilent).fit();
  EXPECT_LT(result.last_eval.at("loss"), 0.7 * before.at("loss"));
  EXPECT_GT(result.last_eval.at("dice"), 0.8);
  EXPECT_GT(result.last_eval.at("dice"), before.at("dice"));
  for (const auto* name : {"iou", "hd95", "dice_0", "dice_1", "dice_2", "iou_2", "hd95_1"}) {
    EXPECT_TRUE(std::isfinite(result.last_eval.at(name))) << name;
  }
  const auto file = read_evaluation_file(fixture.folder.file("run/evaluation.json"));
  EXPECT_EQ(file.num_samples, 3);
  ASSERT_EQ(file.pictures.size(), 3U);
  EXPECT_THAT(file.pictures[0].title, HasSubstr("0.nii.gz"));
  EXPECT_THAT(file.pictures[0].image_png, HasSubstr("PNG"));
}

// Also of losses over the batch, which are taken sample by sample in evaluation, as metrics from
// outside are.
TEST(SegmentationTaskTest, EvaluationDoesNotDependOnTheBatchSize) {
  SegmentationFixture fixture;
  register_metric("accuracy", [](const at::Tensor& logits, const at::Tensor& labels) {
    EXPECT_EQ(logits.size(0), 1);
    return logits.argmax(1)
        .eq(labels)
        .masked_select(labels.ge(0))
        .to(at::kDouble)
        .mean()
        .item<double>();
  });
  fixture.task().own_metrics = {"accuracy"};
  for (const auto* loss : {"dice_ce", "ucf_dice_bce"}) {
    fixture.task().loss.name = loss;
    std::vector<std::map<std::string, double>> found;
    for (const int64_t batch : {1, 2, 3}) {
      fixture.config.data.global_batch_size = batch;
      const auto model = make_model(fixture.config, {});
      const auto task = make_task(fixture.config.task, *model);
      const auto source = open_validation_data(fixture.config, {});
      EXPECT_THAT(task->metric_names(), ::testing::Contains("accuracy"));
      found.push_back(evaluate(*model, *task, *source.loader, {})->metrics());
    }
    EXPECT_GT(found[0].at("accuracy"), 0);
    EXPECT_LT(found[0].at("accuracy"), 1);
    for (const auto& [name, value] : found[0]) {
      EXPECT_NEAR(found[1].at(name), value, 1e-6) << name;
      EXPECT_NEAR(found[2].at(name), value, 1e-6) << name;
    }
  }
}

// Also of losses of the whole batch, whose parts' own losses do not add up.
TEST(SegmentationTaskTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  SegmentationFixture fixture;
  auto source = open_training_data(fixture.config);
  const auto model = make_model(fixture.config, {});
  model->to(at::kDouble);
  const auto optimizer = make_optimizer(fixture.config, *model);
  auto batch = source.loader->next();
  for (const auto& loss : {SegmentationLossConfig{}, SegmentationLossConfig{.batch = true},
                           SegmentationLossConfig{.name = "ucf_dice_bce"}}) {
    fixture.task().loss = loss;
    const auto task = make_task(fixture.config.task, *model);
    StepOptions options;
    options.compute.dtype = at::kDouble;
    const auto results_of = [&](int64_t micro) {
      options.micro_batch_size = micro;
      const auto outcome = testing::gradients_of_step(*model, *task, *optimizer, batch, 0, options);
      support::NamedTensors results = {{"loss", at::full({}, outcome.loss, at::kDouble)}};
      for (const auto& item : model->named_parameters()) {
        results[item.key()] = item.value().grad().detach().clone();
      }
      return results;
    };
    const auto whole = results_of(0);
    for (const int64_t micro : {1, 3}) EXPECT_PARITY(results_of(micro), whole, at::kDouble);
  }
}

TEST(SegmentationTaskTest, RefusesModelsAndDataThatDoNotFit) {
  SegmentationFixture fixture;
  const models::Vit vit({}, at::kMeta);
  EXPECT_THAT(segmentation_message_of([&] { SegmentationTask({}, vit); }), HasSubstr("unetr"));
  auto few = testing::tiny_unetr_config();
  few.num_classes = 2;
  fixture.config.model = {few};
  EXPECT_THAT(segmentation_message_of([&] { open_training_data(fixture.config); }),
              HasSubstr("set model.num_classes=3"));
  SegmentationConfig ignoring{.ignore_label = 7};
  const models::Unetr unetr(testing::tiny_unetr_config(), at::kMeta);
  EXPECT_THAT(segmentation_message_of([&] { SegmentationTask(ignoring, unetr); }),
              HasSubstr("ignore_label"));
  auto train = *fixture.config.data.train->get_if<data::NiftiConfig>();
  train.masks.clear();
  fixture.config.data.train = data::DataSectionConfig{train};
  fixture.config.model = {testing::tiny_unetr_config()};
  EXPECT_THAT(segmentation_message_of([&] { open_training_data(fixture.config); }),
              HasSubstr("mask"));
}

TensorBatch batch_of_masks(const at::Tensor& masks) {
  TensorBatch batch;
  batch.images = at::zeros({1, 1, 8, 8, 8});
  batch.masks = masks;
  batch.indices = batch.rows = at::zeros({1}, at::kLong);
  return batch;
}

TEST(SegmentationTaskTest, RefusesMasksThatDoNotFit) {
  models::Unetr model(testing::tiny_unetr_config());
  model.init_weights(1);
  const SegmentationTask task({}, model);
  const auto message = [&](const at::Tensor& masks) {
    return segmentation_message_of([&] { task.loss(model, batch_of_masks(masks)); });
  };
  EXPECT_THAT(message({}), HasSubstr("without masks"));
  EXPECT_THAT(message(at::zeros({1, 8, 8, 9}, at::kLong)), HasSubstr("[8, 8, 9]"));
  EXPECT_THAT(message(at::full({1, 8, 8, 8}, 3, at::kLong)), HasSubstr("class 3"));
  EXPECT_EQ(message(at::full({1, 8, 8, 8}, 2, at::kLong)), "");
}

// An ignored class counts neither in the loss nor in the metrics.
TEST(SegmentationTaskTest, IgnoresALabel) {
  models::Unetr model(testing::tiny_unetr_config());
  model.init_weights(1);
  model.eval();
  const SegmentationTask task({.ignore_label = 2}, model), plain({}, model);
  auto masks = at::zeros({1, 8, 8, 8}, at::kLong);
  masks.narrow(1, 0, 4).fill_(1);
  auto marked = masks.clone();
  marked.narrow(3, 0, 3).fill_(2);
  auto unlabelled = masks.clone();
  unlabelled.narrow(3, 0, 3).fill_(-1);
  const auto metrics_of = [&](const SegmentationTask& one, const at::Tensor& labels) {
    const auto evaluation = one.start_evaluation();
    const auto batch = batch_of_masks(labels);
    evaluation->add(batch, one.loss(model, batch));
    return evaluation->metrics();
  };
  EXPECT_EQ(metrics_of(task, marked), metrics_of(plain, unlabelled));
  EXPECT_NE(metrics_of(plain, masks), metrics_of(plain, unlabelled));
}

}  // namespace
}  // namespace fovea::train
