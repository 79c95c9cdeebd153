// The Hausdorff distance against MONAI's.
#include "fovea/train/metrics/hausdorff.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/train/metrics/overlap.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

using support::Golden;
using support::NamedTensors;

std::vector<uint8_t> mask_of(const at::Tensor& classes, int64_t label) {
  const auto bytes = classes.eq(label).to(at::kByte).contiguous();
  return {bytes.const_data_ptr<uint8_t>(), bytes.const_data_ptr<uint8_t>() + bytes.numel()};
}

struct HausdorffCase {
  std::string form;
  data::VolumeSize size;
  std::array<double, 3> spacing;
};

const std::vector<HausdorffCase> kHausdorffCases = {{"3d", {7, 9, 8}, {2.5, 0.8, 1.3}},
                                                    {"2d", {1, 13, 11}, {1, 0.7, 2.0}}};

double distance_of(const Golden& golden, const HausdorffCase& one, int64_t sample, int64_t label,
                   HausdorffOptions options) {
  options.spatial_dims = one.form == "3d" ? 3 : 2;
  return hausdorff_distance(mask_of(golden.at(one.form + "/predicted")[sample], label),
                            mask_of(golden.at(one.form + "/labels")[sample], label), one.size,
                            options);
}

TEST(HausdorffTest, EqualsMonai) {
  const auto golden = support::load_golden("segmentation_metrics.safetensors");
  int64_t num_finite = 0, num_empty = 0;
  for (const auto& one : kHausdorffCases) {
    for (const double percentile : {95.0, 50.0, 100.0}) {
      for (const bool is_spaced : {false, true}) {
        HausdorffOptions options{.percentile = percentile};
        if (is_spaced) options.spacing = one.spacing;
        const auto name = one.form + "/hd" + std::to_string(static_cast<int>(percentile)) +
                          (is_spaced ? "_spaced" : "_unit");
        NamedTensors found, expected;
        for (int64_t place = 0; place < 16; ++place) {
          const auto want = golden.at(name)[place / 4][place % 4].item<double>();
          const auto got = distance_of(golden, one, place / 4, place % 4, options);
          ASSERT_EQ(std::isnan(got), std::isnan(want)) << name << " " << place;
          (std::isnan(want) ? num_empty : num_finite) += 1;
          if (std::isnan(want)) continue;
          found[std::to_string(place)] = at::tensor({got});
          expected[std::to_string(place)] = at::tensor({want});
        }
        EXPECT_PARITY(found, expected, at::kFloat);
      }
    }
  }
  EXPECT_GT(num_finite, 100);
  EXPECT_GT(num_empty, 12);
}

TEST(HausdorffTest, MeansEqualMonai) {
  const auto golden = support::load_golden("segmentation_metrics.safetensors");
  for (const auto& one : kHausdorffCases) {
    SampleMeans means(4, 1);
    for (int64_t sample = 0; sample < 4; ++sample) {
      std::vector<double> scores;
      for (int64_t label = 0; label < 4; ++label) {
        scores.push_back(distance_of(golden, one, sample, label, {.spacing = one.spacing}));
      }
      means.add(scores);
    }
    const NamedTensors found = {{one.form, at::tensor({means.mean()})}};
    const NamedTensors expected = {{one.form, golden.at(one.form + "/hd95_mean_foreground")}};
    EXPECT_PARITY(found, expected, at::kFloat);
  }
}

TEST(HausdorffTest, RefusesMasksOfAnotherSize) {
  const std::vector<uint8_t> mask(24);
  EXPECT_THROW(hausdorff_distance(mask, mask, {2, 3, 5}, {}), Error);
  EXPECT_THROW(hausdorff_distance(mask, mask, {2, 3, 4}, {.percentile = 101}), Error);
}

}  // namespace
}  // namespace fovea::train
