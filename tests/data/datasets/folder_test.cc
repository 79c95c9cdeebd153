#include "fovea/data/datasets/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/data/loader_setup.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/normalize.h"
#include "tests/data/failing_disk.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    dir_.write("zebra/b.PNG", golden("file.png_gray").bytes);
    dir_.write("zebra/deep/er/a.jpeg", golden("file.jpeg_420").bytes);
    dir_.write("ant/1.jpg", golden("file.jpeg_gray").bytes);
    dir_.write("ant/notes.txt", std::string("not an image, and not listed"));
    dir_.write("ant/.hidden.png", std::string());
    dir_.write(".cache/x.png", std::string());
    dir_.write("README.png", std::string());
  }
  TempDir dir_;
};

TEST_F(FolderTest, ClassesAreFoldersSortedByName) {
  const auto dataset = build_dataset({FolderConfig{.path = dir_.path()}});
  EXPECT_EQ(dataset->class_names(), (std::vector<std::string>{"ant", "zebra"}));
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->num_classes(), 2);
  const std::vector<std::string> paths = {"/ant/1.jpg", "/zebra/b.PNG", "/zebra/deep/er/a.jpeg"};
  const std::vector<std::string> files = {"jpeg_gray", "png_gray", "jpeg_420"};
  Sample sample;
  for (int64_t i = 0; i < 3; ++i) {
    read_decoded(*dataset, i, sample);
    EXPECT_EQ(sample.label, i == 0 ? 0 : 1);
    EXPECT_EQ(dataset->describe(i), dir_.path() + paths[i]);
    EXPECT_EQ(sample.image().pixels, golden("decoded." + files[i]).bytes);
  }
  EXPECT_THROW(read_decoded(*dataset, 3, sample), Error);
}

// Tiles of a TIFF in tiles are those of the whole image, and cost their own bytes.
TEST_F(FolderTest, TilesOfTiffsAreReadByRegion) {
  for (const int64_t channels : {1, 3}) {
    const TempDir dir;
    std::filesystem::create_directories(dir.file("a"));
    TiffWriter writer(dir.file("a/0.tif"), {.size = {1100, 1300}, .channels = channels});
    std::vector<uint8_t> row(static_cast<size_t>(1300 * channels));
    for (int64_t y = 0; y < 1100; ++y) {
      RandomStream random(philox_key(1, "tiff"), static_cast<uint64_t>(y));
      for (uint8_t& value : row) value = static_cast<uint8_t>(random.below(256));
      writer.write_rows(row, 1);
    }
    writer.finish();
    const auto source = build_folder_dataset({.path = dir.path()});
    Sample whole, part, expected;
    read_decoded(*source, 0, whole);
    const VolumeRegion region{{0, 700, 30}, {1, 100, 90}, {1, 1100, 1300}};
    const int64_t before = testing::bytes_read();
    ASSERT_TRUE(source->read_region(0, region, part));
    EXPECT_LT(testing::bytes_read() - before, whole.image().pixels.size() / 4);
    extract_tile(whole, {region.start, region.size, region.size}, expected);
    EXPECT_EQ(part.image().pixels, expected.image().pixels);
    EXPECT_EQ(part.label, 0);
    const TiledDataset tiles(source, {.tile_size = {256, 256}});
    for (const int64_t tile : {0, 7, static_cast<int>(tiles.size()) - 1}) {
      tiles.read(tile, part);
      extract_tile(whole, tiles.tiling(0).tile(tile), expected);
      EXPECT_EQ(part.image().pixels, expected.image().pixels) << tile;
    }
    // The file is opened once for it.
    const auto cost_of = [](const auto& read) {
      const int64_t start = testing::bytes_read();
      read();
      return testing::bytes_read() - start;
    };
    const Tile seventh = tiles.tiling(0).tile(7);
    const VolumeRegion same{seventh.start, seventh.size, {1, 1100, 1300}};
    const int64_t own = cost_of([&] { source->read_region(0, same, part); });
    EXPECT_EQ(cost_of([&] { tiles.read(7, part); }), own);
  }
}

// No bytes would stand for an image that needs no decoding: the one of the sample before.
TEST_F(FolderTest, AnEmptyFileIsNamedAlsoWhereItIsNotDecoded) {
  dir_.write("ant/0.jpg", std::string());
  const auto dataset = build_folder_dataset({.path = dir_.path()});
  Sample sample;
  dataset->read(1, sample);
  const auto& bytes = sample.as<EncodedImage>().bytes;
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end()), golden("file.jpeg_gray").bytes);
  for (const bool is_decoded : {false, true}) {
    EXPECT_THAT(message_of([&] {
                  is_decoded ? read_decoded(*dataset, 0, sample) : dataset->read(0, sample);
                }),
                HasSubstr("/ant/0.jpg: the file is empty"));
  }
}

TEST_F(FolderTest, GivenNamesFixTheLabels) {
  const auto dataset = build_folder_dataset({.path = dir_.path(), .class_names = {"zebra"}});
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->num_classes(), 1);
  EXPECT_THAT(message_of<DataError>([&] {
                build_folder_dataset({.path = dir_.path(), .class_names = {"zebra", "cat"}});
              }),
              HasSubstr("class_names lists \"cat\", but there is no such folder"));
  ConfigIssues issues;
  FolderConfig{.path = "a", .class_names = {"x", "y", "x"}}.validate(issues);
  EXPECT_EQ(issues.all().size(), 1u);
}

TEST_F(FolderTest, AnEmptyClassIsNamed) {
  dir_.write("bee/notes.txt", std::string("no image"));
  EXPECT_THAT(message_of<DataError>([&] { build_folder_dataset({.path = dir_.path()}); }),
              HasSubstr("/bee: the class \"bee\" has no image"));
}

TEST_F(FolderTest, InEvaluationAClassMayBeEmptyOrMissing) {
  dir_.write("bee/notes.txt", std::string("no image"));
  const auto dataset = build_folder_dataset(
      {.path = dir_.path(), .class_names = {"zebra", "cat", "bee"}}, EmptyClasses::kAllowed);
  EXPECT_EQ(dataset->num_classes(), 3);
  EXPECT_EQ(dataset->size(), 2);
  const TempDir empty;
  empty.write("bee/notes.txt", std::string("no image"));
  EXPECT_THAT(
      message_of<DataError>(
          [&] { build_folder_dataset({.path = empty.path()}, EmptyClasses::kAllowed); }),
      AllOf(HasSubstr("no image (.jpg, .jpeg, .png"), HasSubstr("in the folders of its classes")));
}

TEST_F(FolderTest, HiddenFoldersAreNoPartOfAClass) {
  dir_.write("ant/.ipynb_checkpoints/1.jpg", golden("file.jpeg_gray").bytes);
  EXPECT_EQ(build_folder_dataset({.path = dir_.path()})->size(), 3);
}

TEST_F(FolderTest, ValidationIsMatchedWithTheTrainedClassesByName) {
  dir_.write("bee/notes.txt", std::string("no image"));
  const DataConfig config;
  const DataSectionConfig section = {FolderConfig{
      .path = dir_.path(), .transforms = {{CenterCropConfig{.size = {8}}}, {NormalizeConfig{}}}}};
  const auto open = [&](std::vector<std::string> names) {
    return open_loader_setup(config, section, {.class_names = std::move(names)}, false).dataset;
  };
  const std::vector<std::string> learned = {"ape", "zebra", "bee", "ant"};
  const auto dataset = open(learned);
  EXPECT_EQ(dataset->class_names(), learned);
  EXPECT_EQ(dataset->num_classes(), 4);
  Sample sample;
  read_decoded(*dataset, 0, sample);
  EXPECT_EQ(sample.label, 3) << "ant";
  dataset->read(1, sample);
  EXPECT_EQ(sample.label, 1) << "zebra";
  dataset->read(2, sample);
  EXPECT_EQ(sample.label, 1) << "zebra";
  // The sets of a mix, too.
  MixSetConfig set;
  set.name = "a";
  set.source = {*section.get_if<FolderConfig>()};
  MixConfig mix;
  mix.sets.push_back(set);
  const auto mixed = open_loader_setup(config, {mix}, {.class_names = learned}, false).dataset;
  read_decoded(*mixed, 0, sample);
  EXPECT_EQ(sample.label, 3) << "ant";
  EXPECT_THAT(message_of<ConfigError>([&] {
                open({"ape", "bee", "ant"});
              }),
              AllOf(HasSubstr("data.val: the class 'zebra' is none of the 3"),
                    HasSubstr("(ape, bee, ant)")));
}

TEST_F(FolderTest, FoldersThatAreNone) {
  EXPECT_THAT(message_of<DataError>([&] { build_folder_dataset({.path = dir_.path() + "/none"}); }),
              HasSubstr("/none: no such folder"));
  EXPECT_THAT(message_of<DataError>([&] { build_folder_dataset({.path = dir_.path() + "/ant"}); }),
              HasSubstr("/ant: holds no folders"));
  const TempDir empty;
  EXPECT_THAT(message_of<DataError>([&] { build_folder_dataset({.path = empty.path()}); }),
              HasSubstr("holds no folders"));
}

TEST_F(FolderTest, NamesThatAreNotText) {
  dir_.write("zebra/caf\xe9.png", golden("file.png_gray").bytes);
  const auto dataset = build_folder_dataset({.path = dir_.path()});
  Sample sample;
  read_decoded(*dataset, 2, sample);
  EXPECT_EQ(sample.image().channels, 1);
  EXPECT_THAT(dataset->describe(2), EndsWith("/zebra/caf\\xe9.png"));
  dir_.write("zebra/bad\x1b\xe9.png", std::string("text"));
  const auto with_bad = build_folder_dataset({.path = dir_.path()});
  EXPECT_THAT(message_of<DataError>([&] { read_decoded(*with_bad, 2, sample); }),
              AllOf(HasSubstr("/zebra/bad\\x1b\\xe9.png: not an image")));
  dir_.write("caf\xe9/x.png", golden("file.png_gray").bytes);
  EXPECT_THAT(message_of<DataError>([&] { build_folder_dataset({.path = dir_.path()}); }),
              HasSubstr("/caf\\xe9: the name of the class is not plain UTF-8"));
}

TEST_F(FolderTest, NamesInOtherScriptsAreFine) {
  dir_.write("\xe7\x8c\xab/x.png", golden("file.png_gray").bytes);
  const auto dataset = build_folder_dataset({.path = dir_.path()});
  EXPECT_EQ(dataset->class_names().back(), "\xe7\x8c\xab");
}

TEST_F(FolderTest, AFolderThatCannotBeListed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may list any folder";
  const std::string closed = dir_.file("zebra/deep");
  std::filesystem::permissions(closed, std::filesystem::perms::none);
  const std::string message =
      message_of<DataError>([&] { build_folder_dataset({.path = dir_.path()}); });
  std::filesystem::permissions(closed, std::filesystem::perms::owner_all);
  EXPECT_THAT(message, HasSubstr("cannot list the folder"));
}

}  // namespace
}  // namespace fovea::data
