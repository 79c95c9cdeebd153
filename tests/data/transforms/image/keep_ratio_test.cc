#include "fovea/data/transforms/image/keep_ratio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "fovea/data/transforms/image/crop_or_pad.h"
#include "fovea/data/transforms/image/eval_crop.h"
#include "fovea/data/transforms/image/resize_keep_ratio.h"
#include "fovea/data/transforms/image/rkrc_rkrr.h"
#include "fovea/data/transforms/image/window.h"
#include "tests/data/augment_support.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::augment_golden;
using testing::augment_golden_names;
using testing::pixels_of;
using testing::sizes_in;
using testing::test_stream;

TEST(KeepRatioTest, SizesAreTimms) {
  const auto rows = augment_golden("keep_ratio_sizes").values<double>();
  ASSERT_EQ(rows.size(), 7u * 54);
  for (size_t i = 0; i < rows.size(); i += 7) {
    const auto whole = [&](size_t k) { return static_cast<int64_t>(rows[i + k]); };
    const ResizeKeepRatioConfig config = {.size = {whole(2), whole(3)}, .longest = rows[i + 4]};
    RandomStream random = test_stream();
    const ImageSize size = {whole(0), whole(1)};
    EXPECT_EQ(draw_keep_ratio_size(config, size, random), (ImageSize{whole(5), whole(6)}))
        << "row " << i / 7;
    EXPECT_EQ(config.output_size(size), (ImageSize{whole(5), whole(6)}));
  }
}

TEST(KeepRatioTest, RandomSizesAreDistributedAsTimms) {
  constexpr int kDraws = 20000;
  const auto expected =
      augment_golden("rkrc_sizes").values<double>();  // [mean, deviation] x [h, w]
  const ResizeKeepRatioConfig config = {.random_scale_prob = 0.5,
                                        .random_scale_range = {0.8, 1.0},
                                        .random_scale_area = true,
                                        .random_aspect_prob = 0.5,
                                        .random_aspect_range = {0.9, 1 / 0.9}};
  double sums[2] = {}, squares[2] = {};
  for (int i = 0; i < kDraws; ++i) {
    RandomStream random = test_stream(i);
    const ImageSize size = draw_keep_ratio_size(config, {375, 500}, random);
    const double sides[2] = {static_cast<double>(size.height), static_cast<double>(size.width)};
    for (int k = 0; k < 2; ++k) {
      sums[k] += sides[k];
      squares[k] += sides[k] * sides[k];
    }
  }
  for (int k = 0; k < 2; ++k) {
    const double mean = sums[k] / kDraws;
    EXPECT_NEAR(mean, expected[k], 5 * expected[2 + k] * std::sqrt(2.0 / kDraws));
    EXPECT_NEAR(std::sqrt(squares[k] / kDraws - mean * mean), expected[2 + k],
                0.03 * expected[2 + k]);
  }
  EXPECT_EQ(config.output_size(ImageSize{375, 500}), std::nullopt);
}

TEST(KeepRatioTest, WindowsGiveTimmsPixels) {
  const auto names = augment_golden_names("window");
  EXPECT_EQ(names.size(), 18u);
  for (const auto& name : names) {  // window, image, mode, top, left, height, width
    const Image in = augment_golden("image." + name[1]).image();
    TransformScratch scratch;
    scratch.geometry = SampleGeometry({in.height, in.width});
    const ImageSize size = {std::stoll(name[5]), std::stoll(name[6])};
    const ImageView view = crop_or_pad(ImageView(in), std::stoll(name[3]), std::stoll(name[4]),
                                       size, pad_mode_from_name(name[2]), {128, 64, 200}, scratch);
    EXPECT_EQ(pixels_of(view), augment_golden("window." + name[1] + "." + name[2] + "." + name[3] +
                                              "." + name[4] + "." + name[5] + "." + name[6])
                                   .bytes)
        << name[1] << " " << name[2] << " " << name[3];
    EXPECT_EQ(scratch.geometry.out_size(), size);
  }
}

template <class Config>
std::vector<uint8_t> keep_ratio_result(const Config& config, const Image& image,
                                       uint64_t sample = 0) {
  TransformScratch scratch;
  RandomStream random = test_stream(sample);
  const ImageView view = config.apply(ImageView(image), random, scratch);
  const auto size = config.output_size(ImageSize{image.height, image.width});
  EXPECT_EQ(view.size(), size.value_or(view.size()));
  return pixels_of(view);
}

TEST(KeepRatioTest, CentresGiveTimmsPixels) {
  const auto names = augment_golden_names("center");
  EXPECT_EQ(names.size(), 8u);
  for (const auto& name : names) {
    const CenterCropOrPadConfig config = {.size = sizes_in(name[2]), .fill = {128, 64, 200}};
    EXPECT_EQ(keep_ratio_result(config, augment_golden("image." + name[1]).image()),
              augment_golden("center." + name[1] + "." + name[2]).bytes)
        << name[1] << " " << name[2];
  }
}

TEST(KeepRatioTest, EvaluationCropsGiveTimmsPixels) {
  const auto names = augment_golden_names("eval");
  EXPECT_EQ(names.size(), 6u);
  for (const auto& name : names) {
    const EvalCropConfig config = {.size = sizes_in(name[2]), .crop_mode = name[1]};
    EXPECT_EQ(keep_ratio_result(config, augment_golden("image.rgb").image()),
              augment_golden("eval." + name[1] + "." + name[2]).bytes)
        << name[1] << " " << name[2];
  }
}

TEST(KeepRatioTest, RandomWindowsVisitEveryPlace) {
  const Image in = {1, 3, 1, {1, 2, 3}};
  std::map<std::vector<uint8_t>, int> counts;
  for (int i = 0; i < 4000; ++i) {
    ++counts[keep_ratio_result(RandomCropOrPadConfig{.size = {2, 2}, .fill = {9}}, in, i)];
  }
  EXPECT_EQ(counts.size(), 4u);  // two places down, two across
  for (const auto& [pixels, count] : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_TRUE(counts.contains({1, 2, 9, 9}));
  EXPECT_TRUE(counts.contains({9, 9, 2, 3}));
}

TEST(KeepRatioTest, TrainingCropsAreAFunctionOfTheStream) {
  const Image in = augment_golden("image.rgb").image();
  const RkrcConfig centred = {.size = {20, 24}};
  const RkrrConfig random = {.size = {20, 24}};
  EXPECT_EQ(keep_ratio_result(centred, in, 3), keep_ratio_result(centred, in, 3));
  EXPECT_EQ(keep_ratio_result(random, in, 3), keep_ratio_result(random, in, 3));
  std::map<std::vector<uint8_t>, int> results;
  for (int i = 0; i < 20; ++i) {
    ++results[keep_ratio_result(centred, in, i)];
    ++results[keep_ratio_result(random, in, i)];
  }
  EXPECT_GT(results.size(), 20u);
  EXPECT_THROW(pad_mode_from_name("wrap"), ConfigError);
}

}  // namespace
}  // namespace fovea::data
