#include "fovea/train/tasks/classification.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"
#include "fovea/train/tasks/own_loss.h"
#include "fovea/train/tasks/own_metric.h"

// B batch, C classes.
namespace fovea::train {
namespace {

// log softmax by its definition, in double.
std::vector<double> log_softmax(const at::Tensor& row) {
  const auto values = row.to(at::kDouble).contiguous();
  double sum = 0;
  for (int64_t c = 0; c < values.numel(); ++c) sum += std::exp(values[c].item<double>());
  std::vector<double> result;
  for (int64_t c = 0; c < values.numel(); ++c) {
    result.push_back(values[c].item<double>() - std::log(sum));
  }
  return result;
}

TEST(ClassificationTest, CrossEntropyWithSmoothingFollowsItsFormula) {
  const auto logits = at::randn({6, 5}, at::kDouble);
  const auto labels = at::tensor({0, 4, 2, 1, 3, 3}, at::kLong);
  for (const double smoothing : {0.0, 0.1, 0.7}) {
    const auto losses = classification_losses(logits, labels, {.label_smoothing = smoothing});
    for (int64_t b = 0; b < 6; ++b) {
      const auto log_p = log_softmax(logits[b]);
      double mean = 0;
      for (const double value : log_p) mean += value / 5;
      const double expected =
          -(1 - smoothing) * log_p[labels[b].item<int64_t>()] - smoothing * mean;
      EXPECT_NEAR(losses[b].item<double>(), expected, 1e-12) << "sample " << b;
    }
  }
}

TEST(ClassificationTest, ALossFromOutsideIsCalledByItsName) {
  register_loss("first_logit",
                [](const at::Tensor& logits, const at::Tensor&) { return logits.select(1, 0); });
  register_loss("mean", [](const at::Tensor& logits, const at::Tensor&) { return logits.mean(); });
  const auto logits = at::randn({6, 5}), labels = at::tensor({0, 4, 2, 1, 3, 3}, at::kLong);
  const auto of = [&](const std::string& name) {
    return classification_losses(logits, labels, {.loss = "own", .own_loss = name});
  };
  EXPECT_TRUE(of("first_logit").equal(logits.select(1, 0)));
  EXPECT_THROW(of("mean"), Error);  // one number for all of them
  EXPECT_THROW(of("first"), ConfigError);
}

TEST(ClassificationTest, SoftTargetsOfOneClassEqualItsLabel) {
  const auto logits = at::randn({3, 4});
  const auto labels = at::tensor({2, 0, 3}, at::kLong);
  auto targets = at::zeros({3, 4});
  for (int64_t b = 0; b < 3; ++b) targets[b][labels[b].item<int64_t>()] = 1;
  const ClassificationConfig config{.label_smoothing = 0.2};
  EXPECT_TRUE(at::allclose(classification_losses(logits, labels, config),
                           classification_losses(logits, targets, config)));
}

TEST(ClassificationTest, BinaryCrossEntropyFollowsItsFormula) {
  const auto logits = at::randn({3, 4}, at::kDouble);
  const auto targets = at::softmax(at::randn({3, 4}, at::kDouble), 1);
  const auto losses = classification_losses(logits, targets, {.loss = "bce"});
  for (int64_t b = 0; b < 3; ++b) {
    double expected = 0;
    for (int64_t c = 0; c < 4; ++c) {
      const double p = 1 / (1 + std::exp(-logits[b][c].item<double>()));
      const double t = targets[b][c].item<float>();
      expected -= (t * std::log(p) + (1 - t) * std::log(1 - p)) / 4;
    }
    EXPECT_NEAR(losses[b].item<double>(), expected, 1e-10);
  }
}

// Logits that are handed through: what a task makes of a model's output.
class FixedModel : public models::Model {
 public:
  explicit FixedModel(at::Tensor logits) : logits_(std::move(logits)) {}
  std::string_view recipe_name() const override { return "fixed"; }
  at::Tensor forward(const models::ModelInput&) const override { return logits_; }
  void init_parameter(const std::string&, const at::Tensor&, uint64_t) const override {}
  models::InputSpec input_spec() const override { return {}; }
  std::vector<std::string> no_weight_decay() const override { return {}; }
  int64_t layer_id(const std::string&) const override { return 0; }
  int64_t num_layers() const override { return 1; }

 private:
  at::Tensor logits_;
};

TensorBatch batch_of_labels(const at::Tensor& labels) {
  TensorBatch batch;
  batch.labels = labels;
  batch.indices = at::arange(labels.size(0), at::kLong);
  return batch;
}

TEST(ClassificationTest, EvaluationCountsTop1Top5AndConfusion) {
  // Seven classes; sample 0 is right, sample 1 has its label in fourth place, sample 2 in seventh.
  const auto logits = at::tensor({9., 1., 0., 0., 0., 0., 0.,  //
                                  9., 8., 7., 6., 1., 0., 0.,  //
                                  9., 8., 7., 6., 5., 4., 3.})
                          .view({3, 7})
                          .to(at::kFloat);
  FixedModel model(logits);
  const ClassificationTask task({.label_smoothing = 0.1}, 7);
  const auto batch = batch_of_labels(at::tensor({0, 3, 6}, at::kLong));
  const auto evaluation = task.start_evaluation();
  evaluation->add(batch, task.loss(model, batch));
  const auto metrics = evaluation->metrics();
  EXPECT_NEAR(metrics.at("top1"), 100.0 / 3, 1e-9);
  EXPECT_NEAR(metrics.at("top5"), 200.0 / 3, 1e-9);
  EXPECT_EQ(evaluation->num_samples(), 3);
  const auto plain = classification_losses(logits, batch.labels, {}).mean().item<double>();
  EXPECT_NEAR(metrics.at("loss"), plain, 1e-6);  // smoothing is for training

  const auto& detail = dynamic_cast<const ClassificationEvaluation&>(*evaluation);
  int64_t counted = 0;
  for (const auto& entry : detail.confusion()) counted += entry.second;
  EXPECT_EQ(counted, 3);
  EXPECT_EQ(detail.confusion().at({6, 0}), 1);
  EXPECT_EQ(detail.predictions().at(1).classes, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

// Of two ranks, whose samples are each other's neighbours in the data set.
TEST(ClassificationTest, AMetricFromOutsideSeesAllSamplesInTheirOrder) {
  at::Tensor seen_logits, seen_labels;
  register_metric("seen", [&](const at::Tensor& logits, const at::Tensor& labels) {
    seen_logits = logits;
    seen_labels = labels;
    return 0.25;
  });
  const auto logits = at::randn({4, 3}), labels = at::tensor({2, 0, 1, 1}, at::kLong);
  const ClassificationTask task({.own_metrics = {"seen"}}, 3);
  EXPECT_EQ(task.metric_names(), (std::vector<std::string>{"top1", "top5", "loss", "seen"}));
  std::vector<nlohmann::json> parts;
  std::unique_ptr<Evaluation> evaluation;
  FixedModel model(logits);
  for (const auto& rows : {at::tensor({1, 3}, at::kLong), at::tensor({0, 2}, at::kLong)}) {
    evaluation = task.start_evaluation();
    auto batch = batch_of_labels(labels.index_select(0, rows));
    batch.indices = rows;
    FixedModel of_rank(logits.index_select(0, rows));
    evaluation->add(batch, task.loss(of_rank, batch));
    parts.push_back(evaluation->part());
  }
  evaluation->join(parts);
  evaluation->finish(model);
  EXPECT_EQ(evaluation->metrics().at("seen"), 0.25);
  EXPECT_TRUE(seen_logits.equal(logits));
  EXPECT_TRUE(seen_labels.equal(labels));
}

TEST(ClassificationTest, AMetricFromOutsideGivesAFiniteNumber) {
  register_metric("nan", [](const at::Tensor&, const at::Tensor&) {
    return std::numeric_limits<double>::quiet_NaN();
  });
  const auto logits = at::randn({2, 3}), labels = at::tensor({2, 0}, at::kLong);
  EXPECT_THROW(own_metric_of("nan", logits, labels), Error);
  EXPECT_THROW(own_metric_of("nobody's", logits, labels), ConfigError);
  const ClassificationTask task({.own_metrics = {"nobody's"}}, 3);
  EXPECT_THROW(task.start_evaluation(), ConfigError);
  for (const auto& names : {std::vector<std::string>{"a", "a"}, {"top1"}, {"step"}}) {
    EXPECT_THROW(check_config("task", ClassificationConfig{.own_metrics = names}), ConfigError);
  }
}

// A square of counts would take 80 GB.
TEST(ClassificationTest, EvaluatesManyClasses) {
  constexpr int64_t kClasses = 100'000;
  auto logits = at::zeros({2, kClasses}, at::kFloat);
  logits[0][99'999] = 5;
  logits[1][7] = 5;
  FixedModel model(logits);
  const ClassificationTask task({}, kClasses);
  const auto batch = batch_of_labels(at::tensor({99'999, 3}, at::kLong));
  const auto evaluation = task.start_evaluation();
  evaluation->add(batch, task.loss(model, batch));
  EXPECT_NEAR(evaluation->metrics().at("top1"), 50.0, 1e-9);
  const auto& detail = dynamic_cast<const ClassificationEvaluation&>(*evaluation);
  EXPECT_EQ(detail.confusion().at({99'999, 99'999}), 1);
  EXPECT_EQ(detail.confusion().at({3, 7}), 1);
}

TEST(ClassificationTest, SamplesOfNoWeightCountForNothing) {
  const auto logits = at::randn({4, 3});
  FixedModel model(logits), kept_model(at::stack({logits[0], logits[2]}));
  const ClassificationTask task({.label_smoothing = 0.1}, 3);
  auto batch = batch_of_labels(at::tensor({0, 0, 2, 0}, at::kLong));
  batch.weights = at::tensor({1.f, 0.f, 1.f, 0.f});
  const auto kept = batch_of_labels(at::tensor({0, 2}, at::kLong));
  const auto parts = task.loss(model, batch), expected = task.loss(kept_model, kept);
  EXPECT_EQ(parts.weight, 2);
  EXPECT_FLOAT_EQ(parts.loss_sum.item<float>(), expected.loss_sum.item<float>());
  EXPECT_EQ(parts.sums.at("top1").item<double>(), expected.sums.at("top1").item<double>());
  const auto evaluation = task.start_evaluation(), wanted = task.start_evaluation();
  evaluation->add(batch, parts);
  wanted->add(kept, expected);
  EXPECT_EQ(evaluation->num_samples(), 2);
  EXPECT_EQ(evaluation->metrics(), wanted->metrics());
}

TEST(ClassificationTest, LabelOutsideTheClassesIsADataError) {
  FixedModel model(at::zeros({2, 3}));
  const ClassificationTask task({}, 3);
  EXPECT_THROW(task.loss(model, batch_of_labels(at::tensor({0, 3}, at::kLong))), DataError);
  EXPECT_THROW(task.loss(model, batch_of_labels(at::tensor({0, -1}, at::kLong))), DataError);
}

}  // namespace
}  // namespace fovea::train
