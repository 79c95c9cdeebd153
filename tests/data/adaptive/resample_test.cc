#include "fovea/data/adaptive/resample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/core/philox.h"
#include "fovea/data/adaptive/axis_weights.h"
#include "tests/data/adaptive/way_back.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_names;

constexpr const char* kResampleFile = "data_adaptive_patching";
constexpr float kOpenCvFloats = 1e-5f;  // OpenCV rounds its weights to float, and sums in float

PatchTree single_leaf(VolumeSize size) {
  PatchTree tree;
  tree.size = size;
  tree.is_volume = size.depth > 1;
  tree.leaves = {{0, 0, 0, static_cast<int32_t>(size.depth), static_cast<int32_t>(size.height),
                  static_cast<int32_t>(size.width)}};
  return tree;
}

TEST(ResampleTest, GivesOpenCvsCubicAndArea) {
  int64_t num_cases = 0;
  for (const auto& name : golden_names("resize", kResampleFile)) {
    if (name[3] == "in") continue;
    const int64_t size = std::stoll(name[1]);
    const int64_t p = std::stoll(name[2]);
    const std::string key = "resize." + name[1] + "." + name[2] + ".";
    const Volume in = {
        1, {1, size, size}, {1, 1, 1}, golden(key + "in", kResampleFile).values<float>()};
    const AxisRule rule = name[3] == "area" ? AxisRule::kArea : AxisRule::kCubic;
    std::vector<float> out(static_cast<size_t>(p * p));
    ResampleScratch scratch;
    volume_to_tokens(VolumeValues(in), single_leaf(in.size), -1, p, {AxisRule::kCubic, rule}, {},
                     out.data(), 0, scratch);
    const auto expected = golden(key + name[3], kResampleFile).values<float>();
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], kOpenCvFloats) << key << name[3] << " " << i;
    }
    ++num_cases;
  }
  EXPECT_EQ(num_cases, 10);
}

TEST(ResampleTest, WeightsAddUpToOne) {
  for (const AxisRule rule :
       {AxisRule::kCubic, AxisRule::kArea, AxisRule::kLinear, AxisRule::kLinearAligned}) {
    for (int64_t in = 1; in < 40; ++in) {
      for (int64_t out = 1; out <= (rule == AxisRule::kArea ? in : 40); ++out) {
        AxisWeights axis;
        patching::make_axis(in, out, rule, axis);
        for (int64_t i = 0; i < out; ++i) {
          EXPECT_GE(axis.starts[i], 0);
          EXPECT_LE(axis.starts[i] + axis.taps, in);
          double sum = 0;
          for (int64_t k = 0; k < axis.taps; ++k) sum += axis.weights[i * axis.taps + k];
          ASSERT_NEAR(sum, 1.0, 1e-6) << in << " " << out << " " << i;
        }
      }
    }
  }
  AxisWeights axis;
  EXPECT_THROW(patching::make_axis(3, 4, AxisRule::kArea, axis), Error);
}

// Every path of the loops (channels, widths, bytes and floats) against the sum of products.
TEST(ResampleTest, PathsAgreeWithThePlainSum) {
  RandomStream random({4, 4}, 4);
  ResampleScratch scratch;
  for (const int64_t channels : {1, 2, 3, 4}) {
    for (const auto& [height, width, p] : std::vector<std::array<int64_t, 3>>{{16, 16, 16},
                                                                              {8, 8, 16},
                                                                              {3, 5, 16},
                                                                              {33, 20, 16},
                                                                              {12, 40, 12},
                                                                              {9, 4, 7},
                                                                              {1, 1, 4},
                                                                              {64, 2, 8}}) {
      Image image = {height, width, channels, {}};
      for (int64_t i = 0; i < height * width * channels; ++i) {
        image.pixels.push_back(static_cast<uint8_t>(random.below(256)));
      }
      const auto rules = resample_rules(false, false);
      std::vector<float> tokens(static_cast<size_t>(channels * p * p));
      const std::vector<float> scale = {0.5f, 2.0f, 3.0f, 4.0f};
      const std::vector<float> shift = {1.0f, -1.0f, 0.25f, 8.0f};
      const auto count = static_cast<size_t>(channels);
      image_to_tokens(ImageView(image), single_leaf({1, height, width}), p, rules,
                      {std::span(scale).first(count), std::span(shift).first(count)}, tokens.data(),
                      p * p, scratch);
      const AxisWeights& rows = scratch.axis(height, p, rules);
      const AxisWeights& columns = scratch.axis(width, p, rules);
      for (int64_t i = 0; i < channels * p * p; ++i) {
        const int64_t c = i / (p * p);
        const int64_t y = i / p % p;
        const int64_t x = i % p;
        double sum = 0;
        for (int64_t a = 0; a < rows.taps; ++a) {
          for (int64_t b = 0; b < columns.taps; ++b) {
            const int64_t at =
                ((rows.starts[y] + a) * width + columns.starts[x] + b) * channels + c;
            sum += double{rows.weights[y * rows.taps + a]} * columns.weights[x * columns.taps + b] *
                   image.pixels[at];
          }
        }
        const double expected = std::clamp(sum, 0.0, 255.0) * scale[c] + shift[c];
        ASSERT_NEAR(tokens[i], expected, 1e-3) << channels << " " << height << "x" << width;
      }
    }
  }
}

TEST(ResampleTest, VolumesShrinkToMeans) {
  Volume volume = {2, {4, 4, 8}, {1, 1, 1}, {}};
  for (int64_t i = 0; i < 256; ++i) volume.values.push_back(static_cast<float>(i));
  std::vector<float> tokens(16);
  ResampleScratch scratch;
  volume_to_tokens(VolumeValues(volume), single_leaf(volume.size), -1, 2,
                   resample_rules(true, false), {}, tokens.data(), 8, scratch);
  for (int64_t i = 0; i < 16; ++i) {  // of each block of 2x2x4 the mean of its corners
    const int64_t first = i / 8 * 128 + i / 4 % 2 * 64 + i / 2 % 2 * 16 + i % 2 * 4;
    EXPECT_FLOAT_EQ(tokens[i], static_cast<float>(first) + 0.5f * (32 + 8 + 3));
  }
}

TEST(ResampleTest, OneChannelOfAVolumeIsThatOfAll) {
  RandomStream random({4, 4}, 5);
  Volume volume = {3, {8, 8, 8}, {1, 1, 1}, {}};
  for (int64_t i = 0; i < 3 * 512; ++i) volume.values.push_back(random.uniform());
  std::vector<float> all(3 * 64), one(64);
  ResampleScratch scratch;
  const auto tree = single_leaf(volume.size);
  const auto rules = resample_rules(true, false);
  volume_to_tokens(VolumeValues(volume), tree, -1, 4, rules, {}, all.data(), 64, scratch);
  for (int64_t c = 0; c < 3; ++c) {
    volume_to_tokens(VolumeValues(volume), tree, c, 4, rules, {}, one.data(), 64, scratch);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + c * 64));
  }
}

TEST(ResampleTest, NearestRules) {
  using patching::nearest;
  using patching::NearestRule;
  for (int64_t in = 1; in < 20; ++in) {
    for (int64_t out = 1; out < 20; ++out) {
      for (int64_t i = 0; i < out; ++i) {
        const double step = static_cast<double>(in) / static_cast<double>(out);
        EXPECT_EQ(nearest(i, in, out, NearestRule::kFloor),
                  static_cast<int64_t>(std::floor(static_cast<double>(i) * step + 1e-9)));
        EXPECT_EQ(nearest(i, in, out, NearestRule::kCentre),
                  static_cast<int64_t>(std::floor((static_cast<double>(i) + 0.5) * step + 1e-9)));
        if (out == 1) continue;
        const double aligned = static_cast<double>(i * (in - 1)) / static_cast<double>(out - 1);
        EXPECT_EQ(nearest(i, in, out, NearestRule::kAligned),
                  static_cast<int64_t>(std::ceil(aligned - 0.5 - 1e-9)));
      }
    }
  }
}

// Leaves not larger than the patch lose no label on the way there and back.
TEST(ResampleTest, LabelsComeBackExactly) {
  RandomStream random({4, 4}, 6);
  for (const VolumeSize& size : {VolumeSize{1, 7, 5}, {1, 8, 8}, {3, 4, 6}, {8, 8, 8}}) {
    LabelMap labels = {size, {}};
    for (int64_t i = 0; i < size.voxels(); ++i) {
      labels.classes.push_back(static_cast<int32_t>(random.below(9)) - 1);
    }
    const auto tree = single_leaf(size);
    std::vector<int32_t> tokens(tree.is_volume ? 512 : 64);
    labels_to_tokens(labels.classes, tree, 8, false, tokens);
    EXPECT_EQ(testing::labels_of_tokens(tokens, tree, 8).classes, labels.classes);
  }
}

TEST(ResampleTest, RefusesATreeOfAnotherSize) {
  const Image image = {4, 4, 1, std::vector<uint8_t>(16)};
  std::vector<float> tokens(16);
  ResampleScratch scratch;
  EXPECT_THROW(image_to_tokens(ImageView(image), single_leaf({1, 4, 5}), 4,
                               resample_rules(false, false), {}, tokens.data(), 16, scratch),
               Error);
  std::vector<float> out(16);
  EXPECT_THROW(tokens_to_volume(std::span(tokens).first(15), single_leaf({1, 4, 4}), 4,
                                resample_rules(false, false), out.data(), scratch),
               Error);
}

}  // namespace
}  // namespace fovea::data
