// k-NN against NumPy, and on the features of a run.
#include "fovea/train/metrics/knn.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/models/registry.h"
#include "fovea/train/evaluate/knn_evaluation.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/trainer.h"
#include "tests/support/golden.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using ::testing::HasSubstr;

TEST(KnnTest, VotesAndMetricsAreNumPys) {
  const auto golden = support::load_golden("knn.safetensors");
  const KnnBank bank{golden.at("bank"), golden.at("bank_labels")};
  KnnOptions options;
  options.k = golden.config.at("k").get<std::vector<int64_t>>();
  options.temperature = golden.config.at("temperature");
  const int64_t num_classes = golden.config.at("num_classes");
  const auto neighbors = nearest_neighbors(golden.at("queries"), bank, 20);
  support::NamedTensors votes;
  for (const int64_t k : options.k) {
    votes[std::to_string(k)] =
        knn_votes(neighbors, k, options.temperature, num_classes).to(at::kDouble);
  }
  EXPECT_PARITY(votes, golden.group("votes"), at::kFloat);
  const auto metrics =
      knn_metrics(golden.at("queries"), golden.at("labels"), bank, num_classes, options);
  const auto expected = golden.config.at("metrics").get<std::map<std::string, double>>();
  ASSERT_EQ(metrics.size(), expected.size());
  for (const auto& [name, value] : expected) EXPECT_DOUBLE_EQ(metrics.at(name), value) << name;
}

TEST(KnnTest, AVoteIsWeighedByItsNearness) {
  // Two far neighbours of class 1 lose against one near one of class 0; at a high temperature they
  // win.
  const auto bank = KnnBank{at::tensor({1.0, 0.0, 0.6, 0.8, 0.6, -0.8}).view({3, 2}),
                            at::tensor({0, 1, 1}, at::kLong)};
  const auto neighbors = nearest_neighbors(at::tensor({5.0, 0.0}).view({1, 2}), bank, 3);
  EXPECT_EQ(knn_votes(neighbors, 3, 0.07, 2).argmax(1).item<int64_t>(), 0);
  EXPECT_EQ(knn_votes(neighbors, 3, 10, 2).argmax(1).item<int64_t>(), 1);
}

TEST(KnnTest, MoreNeighboursThanSamplesAreRefused) {
  const KnnBank bank{at::eye(3), at::ones({3}, at::kLong)};
  EXPECT_THROW(nearest_neighbors(at::eye(3), bank, 4), ConfigError);
}

TEST(KnnTest, FeaturesOfATrainedModelTellItsClassesApart) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  auto& train = *config.data.train->get_if<data::IdxConfig>();
  train.transforms.insert(train.transforms.begin(), {data::RandomCropConfig{.size = {8}}});
  config.trainer.max_steps = 100;
  Trainer(config, ProgressLine::Mode::kSilent).fit();
  const auto inference = load_inference(config.run.dir, {.device = "cpu"});
  const auto result = evaluate_knn(*inference.model, config, {.k = {1, 5}}, {});
  EXPECT_EQ(result.num_samples, 40);
  EXPECT_EQ(result.num_neighbors, 100);
  EXPECT_EQ(result.num_left_out, 0);
  EXPECT_GT(result.metrics.at("knn5_top1"), 60);  // chance: 25
  // The same numbers again, whatever the transforms of training would draw, and in micro-batches.
  auto other = config;
  other.run.seed = 99;
  other.trainer.micro_batch_size = 9;
  EXPECT_EQ(evaluate_knn(*inference.model, other, {.k = {1, 5}}, {}).metrics, result.metrics);
}

TEST(KnnTest, EncodersHaveFeaturesToo) {
  const data::testing::TempDir folder;
  const auto config = testing::tiny_config(folder);
  models::MaeConfig mae;
  mae.encoder.vit.img_size = {8};
  mae.encoder.vit.patch_size = {4};
  mae.encoder.vit.in_chans = 1;
  mae.encoder.vit.embed_dim = 32;
  mae.encoder.vit.depth = 1;
  mae.encoder.vit.num_heads = 2;
  mae.decoder_embed_dim = 32;
  mae.decoder_depth = 1;
  mae.decoder_num_heads = 2;
  const auto model = models::build_model({mae});
  model->init_weights(1);
  auto with_mae = config;
  with_mae.model = {mae};
  with_mae.task = {MaskedAutoencodingConfig{}};
  const auto result = evaluate_knn(*model, with_mae, {.k = {10}}, {});
  EXPECT_EQ(result.num_samples, 40);
  EXPECT_GT(result.metrics.at("knn10_top1"), 25);  // chance
  with_mae.data.val.reset();
  EXPECT_THAT(data::testing::message_of<ConfigError>(
                  [&] { evaluate_knn(*model, with_mae, {.k = {10}}, {}); }),
              HasSubstr("data.val is missing"));
}

}  // namespace
}  // namespace fovea::train
