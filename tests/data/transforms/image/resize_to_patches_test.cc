#include "fovea/data/transforms/image/resize_to_patches.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "fovea/config/config.h"
#include "fovea/data/transforms/image/keep_ratio.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::test_stream;

ResizeToPatchesConfig to_patches_of(int64_t patch_size, int64_t max_patches, bool enlarge = false) {
  return {.patch_size = patch_size, .max_patches = max_patches, .enlarge = enlarge};
}

ImageSize grid_of(const ResizeToPatchesConfig& config, ImageSize image) {
  return patch_grid(config, image, config.max_patches);
}

TEST(ResizeToPatchesTest, AnImageOfFewPatchesKeepsItsSize) {
  const auto config = to_patches_of(16, 196);
  EXPECT_EQ(grid_of(config, {224, 224}), (ImageSize{14, 14}));
  EXPECT_EQ(grid_of(config, {64, 160}), (ImageSize{4, 10}));
  EXPECT_EQ(grid_of(config, {65, 150}), (ImageSize{4, 9}));  // to the nearest whole patch
  EXPECT_EQ(grid_of(config, {3, 5}), (ImageSize{1, 1}));     // at least one
}

TEST(ResizeToPatchesTest, ALargerOneIsShrunkInItsAspectRatio) {
  const auto config = to_patches_of(16, 196);
  EXPECT_EQ(grid_of(config, {448, 448}), (ImageSize{14, 14}));
  EXPECT_EQ(grid_of(config, {500, 2000}), (ImageSize{7, 28}));
  EXPECT_EQ(grid_of(config, {2000, 500}), (ImageSize{28, 7}));
  EXPECT_EQ(grid_of(config, {1, 100000}), (ImageSize{1, 196}));
}

TEST(ResizeToPatchesTest, ASmallerOneIsEnlargedWhereThatIsWanted) {
  EXPECT_EQ(grid_of(to_patches_of(16, 196, true), {32, 32}), (ImageSize{14, 14}));
  EXPECT_EQ(grid_of(to_patches_of(16, 64, true), {10, 40}), (ImageSize{4, 16}));
}

TEST(ResizeToPatchesTest, NoGridHasMorePatchesThanTheLimitNorFarFewer) {
  for (const int64_t limit : {1, 2, 3, 7, 64, 197, 256}) {
    const auto config = to_patches_of(8, limit, true);
    for (const int64_t height : {1, 7, 30, 100, 333, 1000}) {
      for (const int64_t width : {1, 9, 64, 250, 777}) {
        const auto [rows, columns] = grid_of(config, {height, width});
        EXPECT_LE(rows * columns, limit) << height << " x " << width;
        EXPECT_GE(std::min(rows, columns), 1);
        // One more row, or one more column, would be too many.
        EXPECT_GT((rows + 1) * (columns + 1), limit) << height << " x " << width;
      }
    }
  }
}

TEST(ResizeToPatchesTest, TheLimitIsDrawnBetweenItsBounds) {
  auto config = to_patches_of(4, 20);
  config.min_patches = 5;
  EXPECT_EQ(config.output_size(ImageSize{400, 400}), std::nullopt);
  Image image{40, 40, 1, std::vector<uint8_t>(1600, 7)};
  TransformScratch scratch;
  std::set<int64_t> counts;
  for (uint64_t sample = 0; sample < 200; ++sample) {
    auto random = test_stream(sample), again = test_stream(sample);
    const auto view = config.apply(ImageView(image), random, scratch);
    const auto size = view.size();
    EXPECT_EQ(config.apply(ImageView(image), again, scratch).size(), size);
    EXPECT_EQ(size.height % 4, 0);
    EXPECT_EQ(size.width % 4, 0);
    counts.insert(size.height * size.width / 16);
  }
  EXPECT_EQ(*counts.begin(), 4);    // 2 x 2 of at most 5
  EXPECT_EQ(*counts.rbegin(), 16);  // 4 x 4 of at most 20
}

TEST(ResizeToPatchesTest, PixelsAreThoseOfAResize) {
  Image image{30, 50, 3, {}};
  for (int64_t i = 0; i < 30 * 50 * 3; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(i * 31 % 251));
  }
  TransformScratch scratch, other;
  auto random = test_stream();
  const auto config = to_patches_of(8, 12);
  const auto view = config.apply(ImageView(image), random, scratch);
  EXPECT_EQ(view.size(), (ImageSize{24, 32}));
  EXPECT_EQ(config.output_size(ImageSize{30, 50}), view.size());
  const auto expected = resize_exactly(ImageView(image), {24, 32}, Interpolation::kBicubic, other);
  EXPECT_EQ(testing::pixels_of(view), testing::pixels_of(expected));
}

TEST(ResizeToPatchesTest, RefusesALeastAboveTheMost) {
  EXPECT_NO_THROW(parse_config<ResizeToPatchesConfig>("min_patches: 256", "test"));
  EXPECT_THROW(parse_config<ResizeToPatchesConfig>("min_patches: 257", "test"), ConfigError);
  EXPECT_THROW(parse_config<ResizeToPatchesConfig>("patch_size: 0", "test"), ConfigError);
}

}  // namespace
}  // namespace fovea::data
