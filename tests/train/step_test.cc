#include "fovea/train/step/step.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <limits>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/session.h"
#include "tests/support/parity.h"
#include "tests/support/tolerance.h"
#include "tests/train/step_gradients.h"
#include "tests/train/step_pieces.h"

namespace fovea::train {
namespace {

struct StepFixture : testing::StepPieces {
  support::NamedTensors gradients() const {
    support::NamedTensors result;
    for (const auto& item : model->named_parameters()) {
      result[item.key()] = item.value().grad().detach().clone();
    }
    return result;
  }
};

TEST(StepTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  StepFixture fixture;
  auto batch = fixture.source.loader->next();
  const auto whole =
      testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer, batch, 0, {});
  const auto expected = fixture.gradients();
  for (const int64_t micro : {1, 5, 12, 23}) {  // 5 and 23 leave an uneven rest
    const auto parts = testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer,
                                                  batch, 0, {.micro_batch_size = micro});
    EXPECT_NEAR(parts.loss, whole.loss, 1e-5) << "micro_batch_size " << micro;
    EXPECT_EQ(parts.weight, whole.weight);
    EXPECT_EQ(parts.sums, whole.sums);
    EXPECT_PARITY(fixture.gradients(), expected, at::kFloat);
  }
}

// Adaptive clipping sees the gradient of the whole batch, and leaves the classifier alone.
TEST(StepTest, MicroBatchesAreClippedAdaptivelyAsTheWholeBatch) {
  StepFixture fixture;
  auto batch = fixture.source.loader->next();
  const auto plain =
      testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer, batch, 0, {});
  const auto before = fixture.gradients();
  const auto whole = testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer,
                                                batch, 0, {.max_grad_ratio = 0.01});
  EXPECT_EQ(whole.grad_norm, plain.grad_norm) << "the norm before clipping";
  const auto expected = fixture.gradients();
  EXPECT_LT(expected.at("blocks.0.mlp.fc1.weight").norm().item<double>(),
            0.9 * before.at("blocks.0.mlp.fc1.weight").norm().item<double>());
  EXPECT_TRUE(at::allclose(expected.at("head.weight"), before.at("head.weight"), 0, 0));
  for (const int64_t micro : {5, 12}) {
    testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer, batch, 0,
                               {.micro_batch_size = micro, .max_grad_ratio = 0.01});
    EXPECT_PARITY(fixture.gradients(), expected, at::kFloat);
  }
}

// A loss whose samples weigh as much as their label says: 1 to 4.
class WeightedTask : public Task {
 public:
  LossParts loss(models::Model& model, const TensorBatch& batch) const override {
    const auto weights = batch.labels.to(at::kFloat) + 1;
    LossParts parts;
    parts.loss_sum =
        (classification_losses(model.forward(batch.images), batch.labels, {}) * weights).sum();
    parts.weight = weights.sum().item<double>();
    return parts;
  }
  std::vector<std::string> metric_names() const override { return {"loss"}; }
  std::unique_ptr<Evaluation> start_evaluation() const override { return nullptr; }
};

TEST(StepTest, MicroBatchesOfUnequalWeightGiveTheGradientOfTheWholeBatch) {
  StepFixture fixture;
  const WeightedTask task;
  auto batch = fixture.source.loader->next();
  const auto whole =
      testing::gradients_of_step(*fixture.model, task, *fixture.optimizer, batch, 0, {});
  const auto expected = fixture.gradients();
  const auto parts = testing::gradients_of_step(*fixture.model, task, *fixture.optimizer, batch, 0,
                                                {.micro_batch_size = 7});
  EXPECT_EQ(parts.weight, whole.weight);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-5);
  EXPECT_PARITY(fixture.gradients(), expected, at::kFloat);
}

// Rows of weight 0 fill a shard up: the gradient is that of the batch without them.
TEST(StepTest, RowsOfNoWeightChangeNothing) {
  StepFixture fixture;
  auto batch = fixture.source.loader->next();
  auto shorter = batch;
  const auto rows = static_cast<size_t>(batch.size() - 2);
  shorter.images.resize(batch.images.size() / batch.indices.size() * rows);
  for (auto* values : {&shorter.labels, &shorter.indices, &shorter.rows}) values->resize(rows);
  shorter.weights.resize(rows);
  shorter.image_shape[0] = static_cast<int64_t>(rows);
  batch.weights[rows] = batch.weights[rows + 1] = 0;
  const auto compute = [&](data::Batch& input) {
    return testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer, input, 0,
                                      {});
  };
  const auto expected = compute(shorter);
  const auto gradients = fixture.gradients();
  const auto found = compute(batch);
  EXPECT_EQ(found.weight, expected.weight);
  EXPECT_EQ(found.sums, expected.sums);
  EXPECT_NEAR(found.loss, expected.loss, 1e-6);
  EXPECT_PARITY(fixture.gradients(), gradients, at::kFloat);
}

TEST(StepTest, MixedTargetsReachTheLoss) {
  StepFixture fixture;
  auto config = fixture.config;
  config.data.mixup = {.mixup_alpha = 1.0};
  auto batch = open_training_data(config).loader->next();
  const auto tensors = to_tensors(batch, 0, batch.size(), {});
  EXPECT_EQ(tensors.labels.sizes(), (std::vector<int64_t>{batch.size(), 4}));
  EXPECT_TRUE(at::allclose(tensors.labels.sum(1), at::ones({batch.size()})));
  EXPECT_LT(tensors.labels.amax(1).min().item<float>(), 1.0f);
}

TEST(StepTest, GradientIsThatOfTheMeanLoss) {
  StepFixture fixture;
  auto batch = fixture.source.loader->next();
  testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer, batch, 3, {});
  const auto actual = fixture.gradients();
  fixture.optimizer->zero_grad();
  const auto tensors = to_tensors(batch, 0, batch.size(), {});
  const nn::StepScope scope(42, 3, tensors.rows);
  classification_losses(fixture.model->forward(tensors.images), tensors.labels, {})
      .mean()
      .backward();
  EXPECT_PARITY(actual, fixture.gradients(), at::kFloat);
}

TEST(StepTest, ClipsToTheNormAsked) {
  StepFixture fixture;
  auto batch = fixture.source.loader->next();
  const auto outcome = testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer,
                                                  batch, 0, {.max_grad_norm = 0.01});
  EXPECT_GT(outcome.grad_norm, 0.01);
  EXPECT_NEAR(fixture.optimizer->flat_grad().norm().item<double>(), 0.01, 1e-5);
}

TEST(StepTest, NonFiniteLossIsRefusedBeforeAnyWeightChanges) {
  StepFixture fixture;
  auto batch = fixture.source.loader->next();
  batch.images[5] = std::numeric_limits<float>::quiet_NaN();
  const auto before = fixture.optimizer->flat_param().clone();
  EXPECT_THROW(
      testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer, batch, 0, {}),
      DivergedError);
  EXPECT_TRUE(fixture.optimizer->flat_param().equal(before));
}

// A scale is a power of two, and taken off again before anything looks at the gradient.
TEST(StepTest, ScalingTheLossChangesNoBitInFloat32) {
  StepFixture fixture;
  auto batch = fixture.source.loader->next();
  for (const int64_t micro : {0, 5}) {
    StepOptions options{.micro_batch_size = micro, .max_grad_norm = 0.01, .max_grad_value = 0.01};
    const auto plain = testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer,
                                                  batch, 0, options);
    const auto expected = fixture.optimizer->flat_grad().clone();
    optim::GradScaler scaler({});
    options.scaler = &scaler;
    const auto scaled = testing::gradients_of_step(*fixture.model, *fixture.task,
                                                   *fixture.optimizer, batch, 0, options);
    EXPECT_FALSE(scaled.is_skipped);
    EXPECT_EQ(scaled.loss_scale, 65536);
    EXPECT_EQ(scaled.loss, plain.loss);
    EXPECT_EQ(scaled.grad_norm, plain.grad_norm);
    EXPECT_TRUE(fixture.optimizer->flat_grad().equal(expected)) << "micro_batch_size " << micro;
  }
}

TEST(StepTest, AScaledStepThatIsNotFiniteIsSkippedUntilNoScaleHelps) {
  StepFixture fixture;
  auto batch = fixture.source.loader->next();
  batch.images[5] = std::numeric_limits<float>::quiet_NaN();
  const auto before = fixture.optimizer->flat_param().clone();
  optim::GradScaler scaler({.init_scale = 4});
  const StepOptions options{.scaler = &scaler};
  const auto compute = [&] {
    return testing::gradients_of_step(*fixture.model, *fixture.task, *fixture.optimizer, batch, 0,
                                      options);
  };
  for (const double scale : {2.0, 1.0}) {
    const auto outcome = compute();
    EXPECT_TRUE(outcome.is_skipped);
    EXPECT_EQ(outcome.loss_scale, scale);
  }
  EXPECT_THROW(compute(), DivergedError);
  EXPECT_TRUE(fixture.optimizer->flat_param().equal(before));
}

// A loss so small that its gradients are below the least number of float16.
class SmallTask : public Task {
 public:
  LossParts loss(models::Model& model, const TensorBatch& batch) const override {
    LossParts parts;
    parts.loss_sum =
        classification_losses(model.forward(batch.images), batch.labels, {}).sum() * 1e-9;
    parts.weight = static_cast<double>(batch.labels.size(0));
    return parts;
  }
  std::vector<std::string> metric_names() const override { return {"loss"}; }
  std::unique_ptr<Evaluation> start_evaluation() const override { return nullptr; }
};

TEST(StepTest, SmallGradientsInFloat16NeedTheScale) {
  StepFixture fixture;
  const SmallTask task;
  auto batch = fixture.source.loader->next();
  StepOptions options;
  const auto norm = [&] {
    return testing::gradients_of_step(*fixture.model, task, *fixture.optimizer, batch, 0, options)
        .grad_norm;
  };
  const auto expected = norm();
  EXPECT_GT(expected, 0);
  const auto gradients = fixture.gradients();
  options.compute.dtype = at::kHalf;
  EXPECT_EQ(norm(), 0) << "the sum over 24 samples, divided by 24, is still too small";
  optim::GradScaler scaler({.init_scale = 0x1p36});
  options.scaler = &scaler;
  EXPECT_NEAR(norm(), expected, 0.01 * expected);
  // Rounding of float16 in each of a few dozen operations.
  for (const auto& [name, gradient] : fixture.gradients()) {
    const auto& exact = gradients.at(name);
    EXPECT_LT((gradient - exact).norm().item<double>(),
              8 * support::Tolerance::for_dtype(at::kHalf).rtol * exact.norm().item<double>())
        << name;
  }
}

TEST(StepTest, FrozenParametersGetNoGradientAndStay) {
  StepFixture fixture;
  fixture.config.trainer.freeze = {"backbone"};
  const auto model = make_model(fixture.config, {});
  const auto optimizer = make_optimizer(fixture.config, *model);
  auto batch = fixture.source.loader->next();
  testing::gradients_of_step(*model, *fixture.task, *optimizer, batch, 0, {});
  int64_t trained = 0;
  for (const auto& item : model->named_parameters()) {
    const bool is_head = item.key().starts_with("head.");
    EXPECT_EQ(item.value().requires_grad(), is_head) << item.key();
    EXPECT_EQ(item.value().grad().defined(), is_head) << item.key();
    trained += is_head;
  }
  EXPECT_EQ(trained, 2);
  EXPECT_EQ(optimizer->params().size(), 2u);
}

TEST(StepTest, FreezingNothingOrAllIsAConfigError) {
  StepFixture fixture;
  EXPECT_THROW(freeze_parameters(*fixture.model, {"block.*"}), ConfigError);
  EXPECT_THROW(freeze_parameters(*fixture.model, {"*"}), ConfigError);
}

}  // namespace
}  // namespace fovea::train
