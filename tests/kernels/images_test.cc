#include "fovea/kernels/elementwise/images.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

// Two samples of one channel, two rows of three pixels.
at::Tensor small_bytes() {
  return at::tensor({0, 51, 102, 153, 204, 255, 255, 0, 0, 0, 0, 0}, at::kByte).view({2, 1, 2, 3});
}

at::Tensor images_of(const std::vector<int64_t>& table, const std::vector<float>& lam) {
  return kernels::normalize_images(
      small_bytes(), at::zeros({1}), at::full({1}, 0.5f),
      {at::tensor(table, at::kLong).view({2, kernels::kImageMixColumns}), at::tensor(lam)},
      at::kFloat);
}

void expect_images(const at::Tensor& actual, const std::vector<float>& expected) {
  support::expect_close(actual.view({-1}), at::tensor(expected), at::kFloat, "images");
}

TEST(NormalizeImagesTest, SubtractsTheMeanAndDividesByTheDeviation) {
  const auto bytes = at::full({1, 2, 2, 2}, 51, at::kByte);  // 0.2
  const auto images = kernels::normalize_images(bytes, at::tensor({0.1f, 0.2f}),
                                                at::tensor({0.5f, 2.0f}), {}, at::kFloat);
  expect_images(images, {0.2f, 0.2f, 0.2f, 0.2f, 0, 0, 0, 0});
}

TEST(NormalizeImagesTest, MirrorsMixesAndCuts) {
  // The first mirrored and mixed with a quarter of the second; the second left alone.
  expect_images(images_of({1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, {0.75f, 1.0f}),
                {0.6f + 0.5f, 0.3f, 0.0f, 1.5f, 1.2f, 0.9f, 2, 0, 0, 0, 0, 0});
  // A box of the first, one pixel high and two wide, is the mirrored second's.
  expect_images(images_of({0, 1, 0, 1, 1, 2, 1, 1, 0, 0, 0, 0}, {0.5f, 1.0f}),
                {0.0f, 0.0f, 2.0f, 1.2f, 1.6f, 2.0f, 0, 0, 2, 0, 0, 0});
}

TEST(NormalizeImagesTest, RoundsToTheDtype) {
  const auto make = [](at::ScalarType dtype) {
    return kernels::normalize_images(small_bytes(), at::full({1}, 0.45f), at::full({1}, 0.23f), {},
                                     dtype);
  };
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    support::expect_same_bits(make(dtype), make(at::kFloat).to(dtype), "images");
  }
}

TEST(NormalizeImagesTest, OtherInputsAreRefused) {
  const auto one = at::full({1}, 1.0f);
  const auto refuses = [&](const at::Tensor& bytes, const at::Tensor& mean,
                           const kernels::ImageMixes& mixes, at::ScalarType dtype) {
    EXPECT_THROW(kernels::normalize_images(bytes, mean, one, mixes, dtype), Error);
  };
  refuses(small_bytes().to(at::kFloat), one, {}, at::kFloat);
  refuses(small_bytes(), at::full({3}, 1.0f), {}, at::kFloat);
  refuses(small_bytes(), one, {}, at::kDouble);
  refuses(small_bytes(), one, {at::zeros({3, 6}, at::kLong), one}, at::kFloat);
}

}  // namespace
}  // namespace fovea
