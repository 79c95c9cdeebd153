#include "fovea/data/pictures/pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/adaptive/leaf_outlines.h"
#include "fovea/data_tools/inspect/tree_pictures.h"
#include "tests/data_tools/inspect_support.h"

namespace fovea::data {
namespace {

using testing::drawn_volume;
using testing::plain_image;

Image gray_rgb(int64_t height, int64_t width, uint8_t value) {
  return to_rgb(ImageView(plain_image(height, width, 1, value, 0).image()));
}

std::array<int, 3> pixel_at(const Image& rgb, int64_t y, int64_t x) {
  const auto* pixel = rgb.pixels.data() + 3 * (y * rgb.width + x);
  return {pixel[0], pixel[1], pixel[2]};
}

using Rgb3 = std::array<int, 3>;

TEST(InspectPicturesTest, AnyNumberOfChannelsIsShown) {
  const Image two = {1, 2, 2, {10, 99, 20, 99}};
  EXPECT_EQ(to_rgb(ImageView(two)).pixels, (std::vector<uint8_t>{10, 10, 10, 20, 20, 20}));
  const Image four = {1, 1, 4, {1, 2, 3, 4}};
  EXPECT_EQ(to_rgb(ImageView(four)).pixels, (std::vector<uint8_t>{1, 2, 3}));
}

TEST(InspectPicturesTest, FitsIntoASquare) {
  const Image small = fit(gray_rgb(28, 20, 7), 128);
  EXPECT_EQ(small.height, 112);  // four times, with hard edges
  EXPECT_EQ(small.width, 80);
  const Image large = fit(gray_rgb(300, 600, 7), 128);
  EXPECT_EQ(large.height, 64);
  EXPECT_EQ(large.width, 128);
  EXPECT_EQ(pixel_at(large, 30, 60), (Rgb3{7, 7, 7}));
  EXPECT_EQ(fit(gray_rgb(1, 5000, 7), 128).height, 1);
}

TEST(InspectPicturesTest, SheetsPutPicturesIntoCells) {
  const std::vector<Image> pictures = {gray_rgb(4, 4, 10), gray_rgb(2, 2, 20), gray_rgb(4, 4, 30)};
  const Image sheet = contact_sheet(pictures, {.columns = 2, .gap = 1, .background = {1, 2, 3}});
  EXPECT_EQ(sheet.height, 11);
  EXPECT_EQ(sheet.width, 11);
  EXPECT_EQ(pixel_at(sheet, 0, 0), (Rgb3{1, 2, 3}));
  EXPECT_EQ(pixel_at(sheet, 1, 1), (Rgb3{10, 10, 10}));
  EXPECT_EQ(pixel_at(sheet, 1, 6), (Rgb3{1, 2, 3}));
  EXPECT_EQ(pixel_at(sheet, 2, 7), (Rgb3{20, 20, 20}));  // in the middle of its cell
  EXPECT_EQ(pixel_at(sheet, 6, 1), (Rgb3{30, 30, 30}));
  EXPECT_EQ(pixel_at(sheet, 6, 6), (Rgb3{1, 2, 3}));
  const Image both = stack({sheet, pictures[0]}, {.gap = 3});
  EXPECT_EQ(both.height, 18);
  EXPECT_EQ(both.width, 11);
  EXPECT_THROW(contact_sheet({}, {}), Error);
}

TEST(InspectPicturesTest, ColumnsKeepGroupsTogether) {
  EXPECT_EQ(sheet_columns(40, {100, 100}, 4), 8);
  EXPECT_EQ(sheet_columns(40, {100, 100}, 0), 8);
  EXPECT_EQ(sheet_columns(40, {100, 100}, 20), 5);
  EXPECT_EQ(sheet_columns(1, {100, 300}, 0), 1);
}

TEST(InspectPicturesTest, MasksAreMixedIn) {
  Image rgb = gray_rgb(1, 3, 100);
  tint({{1, 1, 3}, {0, 1, -1}}, rgb);
  EXPECT_EQ(pixel_at(rgb, 0, 0), (Rgb3{100, 100, 100}));
  EXPECT_EQ(pixel_at(rgb, 0, 2), (Rgb3{100, 100, 100}));
  const Rgb color = class_color(1);
  const auto mixed = pixel_at(rgb, 0, 1);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_GT(mixed[c], std::min<int>(100, color[c]) - 1);
    EXPECT_LT(mixed[c], std::max<int>(100, color[c]) + 1);
  }
  EXPECT_NE(mixed, (Rgb3{100, 100, 100}));
  EXPECT_NE(class_color(1), class_color(2));
  EXPECT_THROW(tint({{1, 1, 2}, {0, 0}}, rgb), Error);
}

TEST(InspectPicturesTest, AFewBrightVoxelsDoNotDarkenTheRest) {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  values[500] = 1e9f;
  const GrayWindow window = gray_window(values);
  EXPECT_NEAR(window.black, 5, 1);
  EXPECT_NEAR(window.white, 995, 2);
  // Where percentiles are the same the whole range is taken.
  std::vector<float> flat(1000, 0.0f);
  flat[7] = 5;
  EXPECT_EQ(gray_window(flat).white, 5);
}

// Voxel (1, 2, 3) of a volume of 3 x 4 x 5 is white: where it shows in each plane and layout.
TEST(InspectPicturesTest, SlicesLieAsTheLayoutSays) {
  Volume volume = {1, {3, 4, 5}, {1, 1, 1}, std::vector<float>(60, 0.0f)};
  volume.values[1 * 20 + 2 * 5 + 3] = 1;
  const auto place = [&](int axis, int64_t at, SliceLayout layout) {
    const Image slice = slice_picture(volume, 0, {}, {axis, at, layout}, {0, 1});
    for (int64_t y = 0; y < slice.height; ++y) {
      for (int64_t x = 0; x < slice.width; ++x) {
        if (pixel_at(slice, y, x)[0] == 255) {
          return std::array<int64_t, 4>{slice.height, slice.width, y, x};
        }
      }
    }
    return std::array<int64_t, 4>{};
  };
  using Place = std::array<int64_t, 4>;
  EXPECT_EQ(place(0, 1, SliceLayout::kMatrix), (Place{4, 5, 2, 3}));
  EXPECT_EQ(place(1, 2, SliceLayout::kMatrix), (Place{3, 5, 1, 3}));
  EXPECT_EQ(place(2, 3, SliceLayout::kMatrix), (Place{3, 4, 1, 2}));
  // First axis to the right, second upwards: the last row is its first voxel.
  EXPECT_EQ(place(0, 1, SliceLayout::kCartesian), (Place{5, 4, 5 - 1 - 3, 2}));
  EXPECT_EQ(place(1, 2, SliceLayout::kCartesian), (Place{5, 3, 5 - 1 - 3, 1}));
  EXPECT_EQ(place(2, 3, SliceLayout::kCartesian), (Place{4, 3, 4 - 1 - 2, 1}));
  EXPECT_EQ(place(0, 0, SliceLayout::kMatrix), Place{});
  EXPECT_THROW(slice_picture(volume, 1, {}, {}, {}), Error);
  EXPECT_THROW(slice_picture(volume, 0, {}, {.axis = 0, .place = 3}, {}), Error);
}

TEST(InspectPicturesTest, VoxelsKeepTheirProportions) {
  Volume volume = drawn_volume(1, {10, 40, 40}, 1).volume();
  volume.spacing = {4, 1, 0.5};  // 40 x 40 x 20 mm
  const double scale = millimetre_scale(volume, 80);
  EXPECT_EQ(scale, 2);
  EXPECT_EQ(slice_size(volume, {.axis = 0}, scale), (ImageSize{80, 40}));
  EXPECT_EQ(slice_size(volume, {.axis = 2}, scale), (ImageSize{80, 80}));
  const Image picture = volume_picture(volume, 0, {}, SliceLayout::kMatrix, 80);
  EXPECT_EQ(picture.height, 80 + 2 * 2);
  EXPECT_EQ(picture.width, 3 * 80 + 4 * 2);
  volume.spacing = {0, -1, 1};  // a file that does not know
  EXPECT_EQ(slice_size(volume, {.axis = 2}, 1), (ImageSize{10, 40}));
  const Volume field = drawn_volume(1, {1, 8, 16}, 1).volume();
  EXPECT_EQ(volume_picture(field, 0, {}, SliceLayout::kMatrix, 64).width, 64);
}

// Noise on the left half only: the tree is known from the patcher, and its leaves' borders are the
// only pixels of that colour.
TEST(InspectTreeTest, ImagesShowTheLeavesOfThePatcher) {
  Sample sample = plain_image(32, 48, 1, 60, 0);
  RandomStream random = testing::test_stream();
  for (int64_t y = 0; y < 32; ++y) {
    for (int64_t x = 0; x < 20; ++x) {
      sample.image().pixels[static_cast<size_t>(48 * y + x)] = random.bernoulli(0.5) ? 255 : 0;
    }
  }
  AdaptivePatchingConfig config{.fixed_length = 22, .patch_size = 8, .smoothing = {0}};
  const auto found = tree_picture(sample, config, SliceLayout::kMatrix, 96, true);
  PatchSequence sequence;
  PatchingScratch scratch;
  AdaptivePatcher(config).patch(ImageView(sample.image()), nullptr, {}, sequence, scratch);
  const auto& leaves = sequence.trees[0].leaves;
  EXPECT_EQ(found.leaves, static_cast<int64_t>(leaves.size()));
  ASSERT_EQ(found.picture.width, 96);
  Image expected = fit(to_rgb(ImageView(sample.image())), 96);
  for (const TreeBox& leaf : leaves) {
    for (int64_t y = 2 * leaf.y; y < 2 * (leaf.y + leaf.height); ++y) {
      for (int64_t x = 2 * leaf.x; x < 2 * (leaf.x + leaf.width); ++x) {
        if (y != 2 * leaf.y && x != 2 * leaf.x) continue;
        const std::array<uint8_t, 3> yellow = {255, 220, 0};
        std::copy(yellow.begin(), yellow.end(), expected.pixels.begin() + 3 * (96 * y + x));
      }
    }
  }
  EXPECT_EQ(found.picture.pixels, expected.pixels);
}

TEST(InspectTreeTest, VolumesShowWhatThePlanesCut) {
  PatchTree tree;
  tree.size = {4, 4, 8};
  tree.is_volume = true;
  tree.leaves = {{0, 0, 0, 2, 4, 8}, {2, 0, 0, 2, 4, 4}, {2, 0, 4, 2, 4, 4}};
  const auto lines = [&](const SlicePlane& plane, ImageSize size) {
    Image picture = gray_rgb(size.height, size.width, 0);
    outline_leaves(tree, plane, {255, 0, 0}, picture);
    std::vector<std::string> rows;
    for (int64_t y = 0; y < size.height; ++y) {
      rows.emplace_back();
      for (int64_t x = 0; x < size.width; ++x) {
        rows.back() += pixel_at(picture, y, x)[0] == 255 ? '#' : '.';
      }
    }
    return rows;
  };
  using Rows = std::vector<std::string>;
  EXPECT_EQ(lines({.axis = 0, .place = 1}, {4, 8}),
            (Rows{"########", "#.......", "#.......", "#......."}));
  EXPECT_EQ(lines({.axis = 0, .place = 3}, {4, 8}),
            (Rows{"########", "#...#...", "#...#...", "#...#..."}));
  EXPECT_EQ(lines({.axis = 1, .place = 0}, {4, 8}),
            (Rows{"########", "#.......", "########", "#...#..."}));
  // Upwards, and at half the size along the width: depth to the right, width from the bottom.
  EXPECT_EQ(lines({1, 0, SliceLayout::kCartesian}, {4, 4}), (Rows{"####", "#.#.", "#.##", "#.#."}));
}

TEST(InspectTreeTest, VolumesUseTheirOwnRange) {
  Sample sample = drawn_volume(1, {16, 16, 16}, 3);  // values from 0 to 100
  AdaptivePatchingConfig config{.fixed_length = 50, .patch_size = 4};
  const auto own = tree_picture(sample, config, SliceLayout::kMatrix, 64, true);
  EXPECT_GT(own.leaves, 8);
  EXPECT_NEAR(own.window.white, 99.5, 0.5);
  EXPECT_EQ(own.picture.height, 64 + 2 * 2);
  EXPECT_EQ(own.picture.width, 3 * 64 + 4 * 2);
}

}  // namespace
}  // namespace fovea::data
