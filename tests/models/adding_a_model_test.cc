// docs/adding_a_model.md, followed: its model compiles, learns and passes what every model must.
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/bag_of_patches.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/own_model.h"
#include "fovea/models/partitionings.h"
#include "fovea/models/registry.h"
#include "tests/models/model_section.h"
#include "tests/support/close.h"

namespace fovea::models {
namespace {

using examples::BagOfPatches;
using examples::BagOfPatchesConfig;

// As a program would at its start.
void register_bag_of_patches() {
  [[maybe_unused]] static const bool is_done = [] {
    register_model<BagOfPatches, BagOfPatchesConfig>();
    return true;
  }();
}

TEST(AddingAModelTest, ARecipeNamesARegisteredModel) {
  register_bag_of_patches();
  const auto parse = [](const char* yaml) { return parse_config<ModelSection>(yaml, "a.yaml"); };
  auto read = parse("model: {name: bag_of_patches, embed_dim: 32, depth: 3}");
  const auto copy = read;
  read = parse("model: {name: bag_of_patches}");
  EXPECT_EQ(copy.model.name(), "bag_of_patches");
  EXPECT_THAT(dump_config(copy), ::testing::HasSubstr("embed_dim: 32"));
  EXPECT_EQ(config_diff(copy, read).size(), 2u);
  const auto model = build_model(copy.model);
  EXPECT_EQ(model->named_parameters()["head.weight"].sizes(), (at::IntArrayRef{10, 32}));
  EXPECT_EQ(names_of_parameters(copy.model).count("blocks.2.fc2.bias"), 1u);
  EXPECT_THAT([&] { parse("model: {name: bag_of_patchs}"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("bag_of_patches")));
  EXPECT_THAT([&] { parse("model: {name: bag_of_patches, num_heads: 2}"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("model.num_heads")));
  EXPECT_THAT([&] { parse("model: {name: bag_of_patches, patch_size: 5}"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("5 does not divide")));
}

TEST(AddingAModelTest, NamesAreTakenOnce) {
  register_bag_of_patches();
  EXPECT_THAT((register_model<BagOfPatches, BagOfPatchesConfig>),
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("'bag_of_patches' is there")));
}

TEST(AddingAModelTest, ThePartitioningIsTheOneBesideTheConfig) {
  register_bag_of_patches();
  const auto read = parse_config<ModelSection>("model: {name: bag_of_patches}", "a.yaml");
  const auto partitioning = partitioning_of(read.model);
  EXPECT_EQ(partitioning.units.size(), 2u);
  const auto names = names_of_parameters(read.model);
  EXPECT_EQ(
      parallel::match_rules(partitioning, std::vector<std::string>(names.begin(), names.end()))
          .size(),
      names.size());
}

class Segmenting : public BagOfPatches, public Segmenter {
 public:
  using BagOfPatches::BagOfPatches;
  std::vector<int64_t> window_size() const override { return {28, 28}; }
};

class Hiding : public BagOfPatches, Segmenter {
 public:
  std::vector<int64_t> window_size() const override { return {28, 28}; }
};

static_assert(detail::kHidesSegmenter<Hiding>);
static_assert(!detail::kHidesSegmenter<Segmenting> && !detail::kHidesSegmenter<BagOfPatches>);

// There is nothing besides to be said, and so nothing to be forgotten.
TEST(AddingAModelTest, WhatDerivesFromSegmenterIsOne) {
  const Segmenting segmenting(BagOfPatchesConfig{});
  const Segmenter& as_segmenter = segmenting;
  EXPECT_EQ(&segmenter_of(segmenting), &as_segmenter);
  EXPECT_EQ(segmenting.as_autoencoder(), nullptr);
  EXPECT_EQ(segmenting.as_denoiser(), nullptr);
  const BagOfPatches plain({});
  EXPECT_THAT([&] { segmenter_of(plain); }, ::testing::ThrowsMessage<ConfigError>(
                                                ::testing::HasSubstr("derives from Segmenter")));
}

TEST(AddingAModelTest, MapsImagesToLogits) {
  BagOfPatches model({});
  model.init_weights(1);
  const auto logits = model.forward(support::random({3, 1, 28, 28}, at::kFloat, 1));
  EXPECT_EQ(logits.sizes(), (at::IntArrayRef{3, 10}));
}

TEST(AddingAModelTest, StepZeroWeightsAreAFunctionOfTheSeed) {
  BagOfPatches first({}), same({}), other({});
  first.init_weights(1);
  same.init_weights(1);
  other.init_weights(2);
  const auto weight = [](BagOfPatches& model) { return model.named_parameters()["head.weight"]; };
  support::expect_same_bits(weight(first), weight(same), "head.weight");
  EXPECT_FALSE(weight(first).equal(weight(other)));
}

TEST(AddingAModelTest, GivesEveryParameterAGradientAndALayer) {
  BagOfPatches model({});
  model.init_weights(1);
  model.forward(support::random({3, 1, 28, 28}, at::kFloat, 1)).square().sum().backward();
  int64_t count = 0;
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
    EXPECT_LT(model.layer_id(item.key()), model.num_layers()) << item.key();
    ++count;
  }
  EXPECT_EQ(count, 2 + 2 * 4 + 2 + 2);
}

TEST(AddingAModelTest, LearnsAFixedBatch) {
  BagOfPatches model({});
  model.init_weights(1);
  const auto images = support::random({10, 1, 28, 28}, at::kFloat, 1);
  const auto labels = at::arange(10);
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 25; ++step) {
    const auto loss = at::cross_entropy_loss(model.forward(images), labels);
    if (step == 0) first = loss.item<double>();
    last = loss.item<double>();
    model.zero_grad();
    loss.backward();
    const at::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) parameter.sub_(parameter.grad() * 0.5);
  }
  EXPECT_LT(last, 0.5 * first);
}

}  // namespace
}  // namespace fovea::models
