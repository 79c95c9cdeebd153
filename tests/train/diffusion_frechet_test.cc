// fovea/train/diffusion/frechet.cc, against scipy's general matrix root
// (tools/golden/make_diffusion.py), and pictures of samples.
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/train/diffusion/frechet.h"
#include "fovea/train/diffusion/sample_grid.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

FeatureMoments moments_of(const at::Tensor& features, int64_t batch) {
  FeatureMoments moments;
  for (int64_t i = 0; i < features.size(0); i += batch) {
    moments.add(features.narrow(0, i, std::min(batch, features.size(0) - i)));
  }
  return moments;
}

// Parts that processes have seen, whose sums are about other shifts.
TEST(FrechetTest, PartsJoinToTheWhole) {
  const auto features = support::load_golden("diffusion_frechet.safetensors").at("left");
  const auto half = features.size(0) / 3;
  FeatureMoments joined;
  joined.add(FeatureMoments());
  for (const auto& part :
       {features.narrow(0, 0, half), features.narrow(0, half, features.size(0) - half)}) {
    joined.add(FeatureMoments::from_json(moments_of(part, 7).to_json()));
  }
  const auto whole = moments_of(features, 100);
  EXPECT_EQ(joined.count(), whole.count());
  const support::NamedTensors actual = {{"mean", joined.mean()},
                                        {"covariance", joined.covariance()}};
  const support::NamedTensors expected = {{"mean", whole.mean()},
                                          {"covariance", whole.covariance()}};
  EXPECT_PARITY(actual, expected, at::kDouble);
}

TEST(FrechetTest, EqualsScipyForAnyBatches) {
  const auto golden = support::load_golden("diffusion_frechet.safetensors");
  const auto expected = golden.tensors;
  for (const int64_t batch : {1, 7, 100}) {
    const auto left = moments_of(golden.at("left"), batch);
    const auto right = moments_of(golden.at("right"), batch);
    const support::NamedTensors actual = {
        {"left", golden.at("left")},
        {"right", golden.at("right")},
        {"mean", left.mean()},
        {"covariance", left.covariance()},
        {"root", symmetric_sqrt(left.covariance())},
        {"distance", at::tensor(frechet_distance(left, right), at::kDouble)}};
    EXPECT_PARITY(actual, expected, at::kDouble);
    support::expect_close(at::tensor(frechet_distance(right, left), at::kDouble),
                          golden.at("distance"), at::kDouble, "the other way round");
  }
}

// Fewer vectors than features: covariances without full rank.
TEST(FrechetTest, OfASetToItselfIsNothing) {
  const auto features = support::random({4, 9}, at::kDouble, 1);
  const auto moments = moments_of(features, 4);
  const auto shifted = moments_of(features + 2, 4);
  // Roots of eigenvalues that are zero but for rounding keep half of the digits: as float32.
  const auto expect_distance = [&](const FeatureMoments& other, double distance) {
    support::expect_close(at::tensor(frechet_distance(moments, other), at::kDouble),
                          at::tensor(distance, at::kDouble), at::kFloat, "distance");
  };
  expect_distance(moments, 0);
  expect_distance(shifted, 9 * 4);
  EXPECT_THROW(frechet_distance(moments, moments_of(features.narrow(0, 0, 1), 1)), Error);
}

TEST(SampleGridTest, PutsSamplesRowByRow) {
  auto samples = at::full({3, 1, 28, 20}, -1.0);
  samples[1].fill_(1.0);
  samples[2].fill_(0.0);
  const auto grid = sample_grid(samples, 2, 1.0);
  EXPECT_EQ(grid.channels, 1);
  EXPECT_EQ(grid.height, 2 * 56 + 2);
  EXPECT_EQ(grid.width, 2 * 40 + 2);
  const auto pixel = [&](int64_t y, int64_t x) {
    return grid.pixels[static_cast<size_t>(y * grid.width + x)];
  };
  EXPECT_EQ(pixel(0, 0), 0);
  EXPECT_EQ(pixel(0, 42), 255);
  EXPECT_EQ(pixel(55, 81), 255);
  EXPECT_EQ(pixel(58, 0), 128);
  EXPECT_EQ(pixel(58, 42), 0) << "no fourth sample";
}

TEST(SampleGridTest, ShowsTheMiddleSliceOfVolumesAndColoursWhereThereAreThree) {
  auto volume = at::zeros({2, 5, 4, 6});
  volume[0][2].fill_(2.0);
  const auto slice = sample_image(volume, 2.0);
  EXPECT_EQ(slice.channels, 1);
  EXPECT_EQ(slice.height, 4);
  EXPECT_EQ(slice.width, 6);
  EXPECT_EQ(slice.pixels, std::vector<uint8_t>(24, 255));
  auto colour = at::full({3, 1, 2}, -1.0);
  colour[1].fill_(1.0);
  EXPECT_EQ(sample_image(colour, 1.0).pixels, (std::vector<uint8_t>{0, 255, 0, 0, 255, 0}));
}

}  // namespace
}  // namespace fovea::train
