// Losses of segmentation against MONAI's and UCF-VIT's, values and gradients.
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <iostream>

#include "fovea/core/error.h"
#include "fovea/train/losses/segmentation.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

using support::Golden;
using support::NamedTensors;

const Golden& golden_losses() {
  static const Golden golden = support::load_golden("segmentation_losses.safetensors");
  return golden;
}

at::Tensor input_of(const std::string& form) {
  return golden_losses().at(form + "/logits").clone().requires_grad_();
}

TEST(SegmentationLossTest, EqualsMonaiAndUcfVit) {
  NamedTensors losses, gradients;
  for (const auto& [name, options] : golden_losses().config.at("cases").items()) {
    const auto config = support::config_from_json<SegmentationLossConfig>(options);
    const auto form = name.substr(0, 2);
    const auto logits = input_of(form);
    const auto loss =
        segmentation_losses(logits, golden_losses().at(form + "/labels"), config).mean();
    loss.backward();
    losses[name] = loss.detach();
    gradients[name] = logits.grad();
  }
  EXPECT_PARITY(losses, golden_losses().group("loss"), at::kDouble);
  EXPECT_PARITY(gradients, golden_losses().group("gradient"), at::kDouble);
}

TEST(SegmentationLossTest, LeavesOutVoxelsWithoutALabel) {
  const auto logits = input_of("ignored");
  const auto loss = segmentation_losses(logits, golden_losses().at("ignored/labels"), {}).mean();
  loss.backward();
  const NamedTensors found = {{"loss", loss.detach()}, {"gradient", logits.grad()}};
  const NamedTensors expected = {{"loss", golden_losses().at("ignored/loss")},
                                 {"gradient", golden_losses().at("ignored/gradient")}};
  EXPECT_PARITY(found, expected, at::kDouble);
  EXPECT_EQ(logits.grad()
                .abs()
                .sum(1)
                .masked_select(golden_losses().at("ignored/labels").lt(0))
                .max()
                .item<double>(),
            0.0);
}

std::vector<SegmentationLossConfig> losses_that_add_up() {
  std::vector<SegmentationLossConfig> found;
  for (const auto& [name, options] : golden_losses().config.at("cases").items()) {
    const auto config = support::config_from_json<SegmentationLossConfig>(options);
    if (config.adds_up()) found.push_back(config);
  }
  return found;
}

// What makes micro-batches exact: a sample's loss does not depend on the others.
TEST(SegmentationLossTest, OfASampleDoesNotDependOnItsNeighbours) {
  const auto logits = golden_losses().at("3d/logits");
  const auto labels = golden_losses().at("3d/labels");
  const auto configs = losses_that_add_up();
  EXPECT_GT(configs.size(), 10U);
  for (const auto& config : configs) {
    const auto together = segmentation_losses(logits, labels, config);
    std::vector<at::Tensor> alone;
    for (int64_t b = 0; b < logits.size(0); ++b) {
      alone.push_back(segmentation_losses(logits.narrow(0, b, 1), labels.narrow(0, b, 1), config));
    }
    const NamedTensors found = {{config.name, at::cat(alone)}};
    const NamedTensors expected = {{config.name, together}};
    EXPECT_PARITY(found, expected, at::kDouble);
  }
}

// What makes a loss of the whole batch exact in parts: its value, and with the gradient in the sums
// that in the logits, whatever the parts are.
TEST(SegmentationLossTest, OfTheWholeBatchFollowsFromTheSumsOfItsParts) {
  const auto labels = golden_losses().at("ignored/labels");
  int64_t compared = 0;
  for (const auto& [name, options] : golden_losses().config.at("cases").items()) {
    const auto config = support::config_from_json<SegmentationLossConfig>(options);
    if (config.adds_up()) continue;
    const auto whole = input_of("ignored"), cut = input_of("ignored");
    const auto expected = segmentation_losses(whole, labels, config).mean();
    expected.backward();
    const auto sums_of = [&](int64_t b) {
      return batch_statistics(cut.narrow(0, b, 1), labels.narrow(0, b, 1), config);
    };
    auto all = sums_of(0).detach();
    for (int64_t b = 1; b < cut.size(0); ++b) all = all + sums_of(b).detach();
    all.requires_grad_();
    const auto loss = loss_of_statistics(all, config);
    loss.backward();
    for (int64_t b = 0; b < cut.size(0); ++b) sums_of(b).backward(all.grad());
    const NamedTensors found = {{name, loss.detach()}, {name + "/gradient", cut.grad()}};
    const NamedTensors right = {{name, expected.detach()}, {name + "/gradient", whole.grad()}};
    EXPECT_PARITY(found, right, at::kDouble);
    compared += 1;
  }
  EXPECT_GE(compared, 2);
}

// A sample of weight 0 changes nothing in a Dice over the batch.
TEST(SegmentationLossTest, LeavesSamplesOfNoWeightOutOfTheBatch) {
  const auto logits = golden_losses().at("3d/logits");
  const auto labels = golden_losses().at("3d/labels");
  const auto weights = at::tensor({1.0f, 1.0f, 0.0f});
  for (const auto* name : {"dice", "dice_ce", "ucf_dice_bce"}) {
    SegmentationLossConfig config{.name = name, .batch = true};
    const auto expected =
        segmentation_losses(logits.narrow(0, 0, 2), labels.narrow(0, 0, 2), config);
    const auto found = segmentation_losses(logits, labels, config, weights);
    const NamedTensors left = {{name, found[0]}}, right = {{name, expected[0]}};
    EXPECT_PARITY(left, right, at::kDouble);
  }
}

TEST(SegmentationLossTest, IsFiniteWhereNoVoxelHasALabel) {
  const auto logits = input_of("3d");
  const auto labels = at::full_like(golden_losses().at("3d/labels"), -1);
  const auto loss = segmentation_losses(logits, labels, {}).mean();
  loss.backward();
  EXPECT_TRUE(logits.grad().isfinite().all().item<bool>());
}

TEST(SegmentationLossTest, RefusesLabelsOfAnotherShape) {
  const auto logits = golden_losses().at("3d/logits");
  EXPECT_THROW(segmentation_losses(logits, golden_losses().at("2d/labels"), {}), Error);
  EXPECT_THROW(segmentation_losses(logits, golden_losses().at("3d/labels").narrow(1, 0, 2), {}),
               Error);
}

}  // namespace
}  // namespace fovea::train
