// The distance transform against scipy's and against every pair.
#include "fovea/train/metrics/distance_transform.h"

#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>

#include "fovea/core/error.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

using support::NamedTensors;

std::vector<uint8_t> sites_of(const at::Tensor& mask) {
  const auto bytes = mask.to(at::kByte).contiguous();
  return {bytes.const_data_ptr<uint8_t>(), bytes.const_data_ptr<uint8_t>() + bytes.numel()};
}

at::Tensor distances(const std::vector<uint8_t>& sites, data::VolumeSize size,
                     const std::array<double, 3>& spacing) {
  auto squares = squared_distances(sites, size, spacing);
  return at::from_blob(squares.data(), {size.depth, size.height, size.width}, at::kDouble).sqrt();
}

TEST(DistanceTransformTest, EqualsScipy) {
  const auto golden = support::load_golden("segmentation_metrics.safetensors");
  const auto sites = sites_of(golden.at("edt/sites"));
  const data::VolumeSize size = {9, 14, 11};
  const NamedTensors found = {{"unit", distances(sites, size, {1, 1, 1})},
                              {"spaced", distances(sites, size, {2.5, 0.8, 1.3})}};
  const NamedTensors expected = {{"unit", golden.at("edt/unit")},
                                 {"spaced", golden.at("edt/spaced")}};
  EXPECT_PARITY(found, expected, at::kDouble);
}

TEST(DistanceTransformTest, IsExactOnLinesPlanesAndSingleVoxels) {
  for (const auto& size :
       {data::VolumeSize{1, 1, 1}, {1, 1, 17}, {1, 13, 1}, {11, 1, 1}, {1, 7, 9}, {5, 6, 7}}) {
    std::vector<uint8_t> sites(static_cast<size_t>(size.voxels()));
    for (size_t i = 0; i < sites.size(); i += 5) sites[i] = 1;
    const auto found = squared_distances(sites, size);
    for (int64_t i = 0; i < size.voxels(); ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < size.voxels(); j += 5) {
        const auto along = [&](int64_t stride, int64_t side) {
          return static_cast<double>(i / stride % side - j / stride % side);
        };
        const double w = along(1, size.width), h = along(size.width, size.height);
        const double d = along(size.width * size.height, size.depth);
        nearest = std::min(nearest, d * d + h * h + w * w);
      }
      ASSERT_EQ(found[i], nearest) << size.depth << "x" << size.height << "x" << size.width;
    }
  }
}

TEST(DistanceTransformTest, IsInfiniteWithoutSites) {
  for (const double square : squared_distances(std::vector<uint8_t>(24), {2, 3, 4})) {
    EXPECT_TRUE(std::isinf(square));
  }
}

TEST(DistanceTransformTest, RefusesAnotherSizeAndSpacing) {
  EXPECT_THROW(squared_distances(std::vector<uint8_t>(23), {2, 3, 4}), Error);
  EXPECT_THROW(squared_distances(std::vector<uint8_t>(24), {2, 3, 4}, {1, 0, 1}), Error);
}

}  // namespace
}  // namespace fovea::train
