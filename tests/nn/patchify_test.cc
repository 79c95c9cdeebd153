#include "fovea/nn/patchify.h"

#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"

namespace fovea::nn {
namespace {

TEST(PatchifyTest, PutsChannelsLastInEachPatch) {
  const auto images = support::random({2, 3, 4, 12}, at::kFloat, 1);
  const auto patches = patchify(images, {2, 4});
  ASSERT_EQ(patches.sizes(), (at::IntArrayRef{2, 6, 24}));
  const auto pixel = images.accessor<float, 4>();
  const auto value = patches.contiguous();
  const auto found = value.accessor<float, 3>();
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t y = 0; y < 4; ++y) {
        for (int64_t x = 0; x < 12; ++x) {
          const auto patch = (y / 2) * 3 + x / 4;
          const auto place = ((y % 2) * 4 + x % 4) * 3 + c;
          ASSERT_EQ(found[b][patch][place], pixel[b][c][y][x]) << y << " " << x;
        }
      }
    }
  }
}

TEST(PatchifyTest, PutsChannelsLastInEachPatchOfAVolume) {
  const auto volumes = support::random({1, 2, 4, 6, 8}, at::kFloat, 2);
  const auto patches = patchify(volumes, {2, 3, 4}).contiguous();
  ASSERT_EQ(patches.sizes(), (at::IntArrayRef{1, 8, 48}));
  const auto voxel = volumes.accessor<float, 5>();
  const auto found = patches.accessor<float, 3>();
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t z = 0; z < 4; ++z) {
      for (int64_t y = 0; y < 6; ++y) {
        for (int64_t x = 0; x < 8; ++x) {
          const auto patch = ((z / 2) * 2 + y / 3) * 2 + x / 4;
          const auto place = (((z % 2) * 3 + y % 3) * 4 + x % 4) * 2 + c;
          ASSERT_EQ(found[0][patch][place], voxel[0][c][z][y][x]);
        }
      }
    }
  }
}

TEST(PatchifyTest, UnfoldedPatchesHaveTheirChannelsFirst) {
  const auto images = support::random({2, 3, 4, 6}, at::kFloat, 3);
  const auto last = patchify(images, {2, 3}).unflatten(2, {6, 3});         // [B, N, P P, C]
  const auto first = unfold_patches(images, {2, 3}).unflatten(2, {3, 6});  // [B, N, C, P P]
  EXPECT_TRUE(first.equal(last.transpose(2, 3)));
}

TEST(PatchifyTest, ComesBack) {
  const auto images = support::random({2, 3, 8, 6}, at::kFloat, 4);
  EXPECT_TRUE(unpatchify(patchify(images, {4, 2}), {4, 2}, {8, 6}).equal(images));
  const auto volumes = support::random({2, 2, 4, 6, 8}, at::kFloat, 5);
  EXPECT_TRUE(unpatchify(patchify(volumes, {2, 3, 4}), {2, 3, 4}, {4, 6, 8}).equal(volumes));
}

TEST(PatchifyTest, RefusesWhatDoesNotDivide) {
  const auto images = support::random({1, 3, 8, 6}, at::kFloat, 6);
  EXPECT_THROW(patchify(images, {3, 2}), Error);
  EXPECT_THROW(patchify(images, {2, 2, 2}), Error);
  const auto patches = patchify(images, {4, 2});
  EXPECT_THROW(unpatchify(patches, {4, 2}, {8, 8}), Error);
  EXPECT_THROW(unpatchify(patches.narrow(2, 0, 23), {4, 2}, {8, 6}), Error);
  EXPECT_THROW(unpatchify(patches, {4, 2}, {9, 6}), Error);
}

}  // namespace
}  // namespace fovea::nn
