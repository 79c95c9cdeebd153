// Blended windows against MONAI's sliding_window_inference.
#include "fovea/train/evaluate/sliding_window.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <iostream>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"

namespace fovea::train {
namespace {

using support::NamedTensors;

// The maker's: two outputs of a voxel that depend on where it stands in its window.
at::Tensor predict_by_place(const at::Tensor& window) {
  const auto sides = window.sizes().slice(2);
  const auto voxels = c10::multiply_integers(sides);
  const auto place = at::arange(voxels, at::kFloat).reshape(sides) / static_cast<double>(voxels);
  return at::stack({window.sum(1) * place, window.select(1, 0) - place}, 1);
}

TEST(SlidingWindowTest, EqualsMonai) {
  const auto golden = support::load_golden("sliding_window.safetensors");
  for (const int64_t batch_size : {1, 3, 100}) {
    NamedTensors found;
    for (const auto& [name, options] : golden.config.at("cases").items()) {
      const SlidingWindowConfig config{
          .overlap = options.at("overlap"), .blend = options.at("blend"), .batch_size = batch_size};
      const auto input = golden.at(options.at("input").get<std::string>() + "/input");
      found[name] = sliding_window(input, options.at("window").get<std::vector<int64_t>>(), config,
                                   predict_by_place);
    }
    EXPECT_PARITY(found, golden.group("output"), at::kFloat);
  }
}

TEST(SlidingWindowTest, OneWindowGivesWhatTheModelGives) {
  const auto images = support::random({2, 3, 8, 6}, at::kFloat, 1);
  const auto found = sliding_window(images, {8, 6}, {}, predict_by_place);
  support::expect_same_bits(found, predict_by_place(images), "one window");
}

TEST(SlidingWindowTest, RefusesAWindowOfAnotherNumberOfSides) {
  const auto images = support::random({2, 3, 8, 6}, at::kFloat, 1);
  EXPECT_THROW(sliding_window(images, {8, 6, 4}, {}, predict_by_place), Error);
}

}  // namespace
}  // namespace fovea::train
