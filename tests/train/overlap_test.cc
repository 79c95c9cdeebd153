// Dice and IoU against MONAI's.
#include "fovea/train/metrics/overlap.h"

#include <ATen/ops/bincount.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "fovea/core/error.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

using support::Golden;
using support::NamedTensors;

constexpr int64_t kClasses = 4;

const Golden& golden_metrics() {
  static const Golden golden = support::load_golden("segmentation_metrics.safetensors");
  return golden;
}

std::vector<int64_t> confusion_of(const std::string& form, int64_t sample) {
  const auto labels = golden_metrics().at(form + "/labels")[sample].to(at::kLong).flatten();
  const auto predicted = golden_metrics().at(form + "/predicted")[sample].to(at::kLong).flatten();
  const auto counts =
      at::bincount(labels * kClasses + predicted, {}, kClasses * kClasses).contiguous();
  return {counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + counts.numel()};
}

using Scores = std::vector<double> (*)(std::span<const int64_t>, int64_t);

SampleMeans means_of(const std::string& form, Scores scores, int64_t first_class) {
  SampleMeans means(kClasses, first_class);
  for (int64_t sample = 0; sample < 4; ++sample) {
    means.add(scores(confusion_of(form, sample), kClasses));
  }
  return means;
}

at::Tensor per_class(const SampleMeans& means, int64_t first_class) {
  std::vector<double> values;
  for (int64_t label = first_class; label < kClasses; ++label) {
    values.push_back(means.mean_of(label));
  }
  return at::tensor(values);
}

class OverlapTest : public ::testing::TestWithParam<const char*> {};

TEST_P(OverlapTest, MeansEqualMonai) {
  const std::string form = GetParam();
  NamedTensors found, expected;
  for (const auto& [metric, scores] : {std::pair<std::string, Scores>{"dice", dice_scores},
                                       std::pair<std::string, Scores>{"iou", iou_scores}}) {
    for (const int64_t first_class : {0, 1}) {
      const auto means = means_of(form, scores, first_class);
      const std::string suffix = first_class == 0 ? "" : "_foreground";
      const auto mean = metric + "_mean" + suffix;
      const auto batch = metric + "_mean_batch" + suffix;
      found[mean] = at::tensor({means.mean()});
      found[batch] = per_class(means, first_class);
      for (const auto& name : {mean, batch}) {
        expected[name] = golden_metrics().at(form + "/" + name).to(at::kDouble);
      }
    }
  }
  EXPECT_PARITY(found, expected, at::kFloat);
}

TEST_P(OverlapTest, ScoresOfEachSampleEqualMonai) {
  const std::string form = GetParam();
  int64_t num_empty = 0;
  for (const auto& [metric, scores] : {std::pair<std::string, Scores>{"dice", dice_scores},
                                       std::pair<std::string, Scores>{"iou", iou_scores}}) {
    for (int64_t sample = 0; sample < 4; ++sample) {
      const auto found = scores(confusion_of(form, sample), kClasses);
      for (int64_t label = 0; label < kClasses; ++label) {
        const auto want = golden_metrics().at(form + "/" + metric)[sample][label].item<double>();
        num_empty += std::isnan(want);
        ASSERT_EQ(std::isnan(found[label]), std::isnan(want)) << metric << sample << label;
        if (std::isnan(want)) continue;
        EXPECT_FLOAT_EQ(static_cast<float>(found[label]), static_cast<float>(want))
            << metric << sample << label;
      }
    }
  }
  EXPECT_GE(num_empty, 4);
}

INSTANTIATE_TEST_SUITE_P(Golden, OverlapTest, ::testing::Values("3d", "2d"),
                         [](const auto& info) { return "Of" + std::string(info.param); });

TEST(SampleMeansTest, IsZeroWithoutSamplesThatHaveAClass) {
  SampleMeans means(2, 1);
  EXPECT_EQ(means.mean(), 0.0);
  means.add(dice_scores(std::vector<int64_t>{5, 1, 0, 0}, 2));
  EXPECT_EQ(means.mean(), 0.0);
  EXPECT_EQ(means.mean_of(1), 0.0);
  EXPECT_EQ(means.num_samples_of(1), 0);
  EXPECT_EQ(means.num_samples_of(0), 1);
  EXPECT_THROW(dice_scores(std::vector<int64_t>{5, 1}, 2), Error);
}

}  // namespace
}  // namespace fovea::train
