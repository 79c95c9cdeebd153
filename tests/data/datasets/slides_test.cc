#include "fovea/data/datasets/slides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fovea/data/datasets/registry.h"
#include "fovea/data/large_image/slide.h"
#include "fovea/data/large_image/tissue.h"
#include "fovea/data/loader.h"
#include "fovea/data/loader_setup.h"
#include "fovea/data/transforms/image/normalize.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

TEST(SlidesConfigTest, WhatContradictsItselfIsSaid) {
  ConfigIssues issues;
  SlidesConfig{.level = 1, .mpp = 0.5}.validate(issues);
  EXPECT_EQ(issues.all().size(), 1u);
}

#ifdef FOVEA_OPENSLIDE

constexpr const char* kSlideTileGoldens = "data_slides";
constexpr int64_t kTile = 24;

class SlidesTest : public ::testing::Test {
 protected:
  SlidesTest() {
    write("in/glass/b.tif", "plain");
    write("in/tumour/a.svs", "aperio");
    write("m.tif", "mask");
  }
  void write(const std::string& path, const std::string& name) {
    dir_.write(path, golden("file." + name, kSlideTileGoldens).bytes);
  }
  SlidesConfig config() const { return {.path = dir_.file("in"), .tile_size = kTile, .tiles = 5}; }
  Sample read(const Dataset& dataset, int64_t index,
              std::optional<RandomStream> random = {}) const {
    Sample sample;
    sample.random = random;
    dataset.read(index, sample);
    return sample;
  }

  TempDir dir_;
};

TEST_F(SlidesTest, TilesAreCutWhereTheTissueIs) {
  const auto dataset = build_dataset({config()});
  EXPECT_EQ(dataset->size(), 10);
  EXPECT_EQ(dataset->class_names(), (std::vector<std::string>{"glass", "tumour"}));
  EXPECT_THAT(dataset->describe(7), HasSubstr("tumour/a.svs tile 2 of 5"));
  const auto& level = golden("level.aperio.0", kSlideTileGoldens);
  const auto& disk = golden("mask", kSlideTileGoldens).bytes;
  const int64_t height = level.shape[0], width = level.shape[1];
  std::set<std::pair<int64_t, int64_t>> places;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    const auto sample = read(*dataset, 6, testing::test_stream(static_cast<uint64_t>(epoch)));
    EXPECT_EQ(sample.label, 1);
    const Image& tile = sample.image();
    ASSERT_EQ(tile.pixels.size(), static_cast<size_t>(kTile * kTile * 3));
    int64_t found = 0;
    for (int64_t y = 0; y + kTile <= height; ++y) {
      for (int64_t x = 0; x + kTile <= width; ++x) {
        bool is_here = true;
        for (int64_t row = 0; row < kTile && is_here; ++row) {
          is_here = std::equal(tile.pixels.begin() + row * kTile * 3,
                               tile.pixels.begin() + (row + 1) * kTile * 3,
                               level.bytes.begin() + ((y + row) * width + x) * 3);
        }
        if (!is_here) continue;
        ++found;
        places.insert({y, x});
        // Cells of the smallest level are 4 pixels wide.
        const int64_t middle = (y + kTile / 2) * width + x + kTile / 2;
        const auto near = {middle, middle - 4, middle + 4, middle - 4 * width, middle + 4 * width};
        EXPECT_TRUE(
            std::any_of(near.begin(), near.end(),
                        [&](int64_t pixel) { return disk[static_cast<size_t>(pixel)] == 1; }))
            << y << " " << x;
      }
    }
    EXPECT_EQ(found, 1);
  }
  EXPECT_GT(places.size(), 6u);
}

TEST_F(SlidesTest, ATileIsAFunctionOfItsStream) {
  const auto first = build_dataset({config()}), second = build_dataset({config()});
  for (const int64_t index : {0, 5, 9}) {
    const auto stream = testing::test_stream(3);
    EXPECT_EQ(read(*first, index, stream).image().pixels,
              read(*second, index, stream).image().pixels);
    EXPECT_EQ(read(*first, index).image().pixels, read(*second, index).image().pixels);
    EXPECT_NE(read(*first, index).image().pixels, read(*first, index, stream).image().pixels);
  }
}

// Epochs differ, threads and ranks do not.
TEST_F(SlidesTest, BatchesAreThoseOfAnyNumberOfThreadsAndRanks) {
  auto open = config();
  open.transforms = {{NormalizeConfig{}}};
  open.open_slides = 1;
  const auto images_of = [&](int64_t threads, int64_t rank, int64_t ranks, int64_t batches) {
    LoaderOptions options;
    options.global_batch_size = 4;
    options.threads = threads;
    options.share = BatchShare::of_rank(rank, ranks);
    Loader loader(build_dataset({open}), make_transforms(open.transforms, SampleForm::kImage, 3),
                  options);
    std::vector<std::vector<float>> all;
    for (int64_t i = 0; i < batches; ++i) all.push_back(loader.next().images);
    return all;
  };
  const auto one = images_of(0, 0, 1, 6);
  EXPECT_EQ(images_of(3, 0, 1, 6), one);
  EXPECT_NE(one[0], one[3]);
  const auto half = images_of(2, 1, 2, 1);  // rows 2 and 3 of 4
  const auto row = std::ssize(one[0]) / 4;
  for (const int64_t i : {0, 1}) {
    EXPECT_TRUE(std::equal(half[0].begin() + i * row, half[0].begin() + (i + 1) * row,
                           one[0].begin() + (i + 2) * row));
  }
}

TEST_F(SlidesTest, MicronsChooseALevelOrShrinkOne) {
  auto by_mpp = config();
  by_mpp.path = dir_.write("l.csv", "path,label\nin/tumour/a.svs,tumour\n");
  by_mpp.mpp = 1.0;
  auto by_level = by_mpp;
  by_level.mpp.reset();
  by_level.level = 1;
  EXPECT_EQ(read(*build_dataset({by_mpp}), 2).image().pixels,
            read(*build_dataset({by_level}), 2).image().pixels);
  by_mpp.mpp = 0.75;  // a square of 36 pixels of level 0
  EXPECT_EQ(read(*build_dataset({by_mpp}), 2).image().height, kTile);
  by_mpp.mpp = 0.2;
  EXPECT_THAT(message_of<ConfigError>([&] { read(*build_dataset({by_mpp}), 0); }),
              AllOf(HasSubstr("no level as fine as 0.2"), HasSubstr("0: 208 x 144 (0.499 um)")));
}

// A mask at the slide's own scale, seen at another one.
TEST_F(SlidesTest, MasksAreCutWithTheTiles) {
  auto open = config();
  open.path = dir_.write("l.csv", "path,mask\nin/tumour/a.svs,m.tif\n");
  open.num_classes = 2;
  open.level = 1;
  open.tissue = false;
  const auto dataset = build_dataset({open});
  ASSERT_TRUE(dataset->has_masks());
  int64_t tissue = 0;
  for (int64_t i = 0; i < 5; ++i) {
    const auto sample = read(*dataset, i);
    ASSERT_EQ(sample.mask.classes.size(), static_cast<size_t>(kTile * kTile));
    for (size_t p = 0; p < sample.mask.classes.size(); ++p) {
      const bool is_pink = saturation(sample.image().pixels.data() + 3 * p) > 60;
      tissue += is_pink == (sample.mask.classes[p] == 1);
    }
  }
  EXPECT_GT(tissue, 5 * kTile * kTile * 95 / 100);  // but for the edge, where level 1 mixes
}

TEST_F(SlidesTest, BadSlidesAreNamed) {
  auto open = config();
  dir_.write("in/glass/b.tif", "no slide");
  const auto dataset = build_dataset({open});
  EXPECT_THAT(message_of<DataError>([&] { read(*dataset, 0); }), HasSubstr("glass/b.tif"));
  EXPECT_EQ(read(*dataset, 5).label, 1);
  open.tile_size = 4000;
  EXPECT_THAT(message_of<DataError>([&] { read(*build_dataset({open}), 5); }),
              AllOf(HasSubstr("a.svs"), HasSubstr("smaller than a tile of 4000")));
  std::filesystem::remove(dir_.file("in/glass/b.tif"));
  EXPECT_THAT(message_of<DataError>([&] { build_dataset({open}); }),
              HasSubstr("\"glass\" has no slide (.svs"));
}

#endif

}  // namespace
}  // namespace fovea::data
