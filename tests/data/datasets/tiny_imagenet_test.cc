#include "fovea/data/datasets/tiny_imagenet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/catsdogs.h"
#include "fovea/data/datasets/find_datasets.h"
#include "fovea/data/datasets/registry.h"
#include "tests/data/archive_support.h"

namespace fovea::data {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

class TinyImagenetTest : public ::testing::Test {
 protected:
  TinyImagenetTest() {
    dir_.write("wnids.txt", std::string("n2\nn1\nn3\n"));
    dir_.write("words.txt", std::string("n1\tgoldfish, Carassius\nn9\tother\nn2\tblack stork\r\n"));
    image("train/n1/images/n1_0.JPEG");
    image("train/n1/images/n1_1.JPEG");
    image("train/n2/images/n2_0.JPEG");
    dir_.write("train/n1/n1_boxes.txt", std::string("n1_0.JPEG\t0\t0\t1\t1\n"));
    dir_.write(
        "val/val_annotations.txt",
        std::string("val_1.JPEG\tn1\t0\t0\t1\t1\nval_0.JPEG\tn2\t0\t0\t1\t1\nval_2.JPEG\tn3\n"
                    "val_9.JPEG\tn1\n"));
    for (const char* name : {"val_0", "val_1", "val_2"})
      image(std::string("val/images/") + name + ".JPEG");
  }
  void image(const std::string& name) const { dir_.write(name, golden("file.jpeg_420").bytes); }
  std::string error_of(const std::string& split) const {
    return message_of<DataError>(
        [&] { build_tiny_imagenet_dataset({.path = dir_.path(), .split = split}); });
  }
  TempDir dir_;
};

TEST_F(TinyImagenetTest, ClassesInTheOrderOfWnids) {
  const auto train = build_dataset({TinyImagenetConfig{.path = dir_.path()}});
  EXPECT_THAT(train->class_names(), ElementsAre("black stork", "goldfish, Carassius"));
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->num_classes(), 2);
  EXPECT_THAT(train->describe(0), EndsWith("train/n2/images/n2_0.JPEG"));
  EXPECT_THAT(train->describe(2), EndsWith("train/n1/images/n1_1.JPEG"));
  const auto val = build_dataset({TinyImagenetConfig{.path = dir_.path(), .split = "val"}});
  EXPECT_EQ(val->class_names(), train->class_names());
  ASSERT_EQ(val->size(), 2);  // n3 has no folder in train
  Sample sample;
  for (const int64_t i : {0, 1}) {
    read_decoded(*val, i, sample);
    EXPECT_EQ(sample.label, i);
    EXPECT_EQ(sample.image().pixels, golden("decoded.jpeg_420").bytes);
  }
  EXPECT_EQ(testing::stored_bytes(*val, 1), golden("file.jpeg_420").bytes);
  EXPECT_EQ(find_datasets(dir_.path()).front().config.name(), "tiny_imagenet");
}

// As BioNeMo's class_map: the label is the number of the line.
TEST_F(TinyImagenetTest, ClassesInTheOrderOfWords) {
  dir_.write("words.txt", std::string("n9\tother\nn1\tgoldfish\n\nn2\tblack stork\n"));
  TinyImagenetConfig config{.path = dir_.path(), .classes = "words", .num_classes = 6};
  const auto train = build_dataset({config});
  EXPECT_EQ(train->num_classes(), 6);
  EXPECT_THAT(train->class_names(),
              ElementsAre("other", "goldfish", "", "black stork", "unused 4", "unused 5"));
  ASSERT_EQ(train->size(), 3);
  Sample sample;
  read_decoded(*train, 0, sample);
  EXPECT_EQ(sample.label, 1);
  read_decoded(*train, 2, sample);
  EXPECT_EQ(sample.label, 3);
  config.split = "val";
  const auto val = build_dataset({config});
  ASSERT_EQ(val->size(), 2);
  read_decoded(*val, 0, sample);
  EXPECT_EQ(sample.label, 3);
  config.num_classes = 3;
  EXPECT_THAT(message_of<ConfigError>([&] { build_tiny_imagenet_dataset(config); }),
              HasSubstr("words.txt has 4 classes"));
  config.num_classes = {};
  EXPECT_EQ(build_dataset({config})->num_classes(), 4);
  dir_.write("words.txt", std::string("n9\tother\n"));
  config.split = "train";
  EXPECT_THAT(message_of<DataError>([&] { build_tiny_imagenet_dataset(config); }),
              HasSubstr("no image of a class"));
}

TEST_F(TinyImagenetTest, WhatIsMissingIsNamed) {
  std::filesystem::remove(dir_.path() + "/train/n2/images/n2_0.JPEG");
  EXPECT_THAT(error_of("train"), HasSubstr("train/n2/images: the class has no image"));
  image("val/images/val_7.JPEG");
  EXPECT_THAT(error_of("val"), HasSubstr("no line for the image val_7.JPEG"));
  dir_.write("val/val_annotations.txt", std::string("val_0.JPEG\tn1\nval_0.JPEG\tn2\n"));
  EXPECT_THAT(error_of("val"), HasSubstr("\"val_0.JPEG\" stands there twice"));
  dir_.write("wnids.txt", std::string("../x\n"));
  EXPECT_THAT(error_of("train"), HasSubstr("cannot be the name of a class"));
  std::filesystem::remove(dir_.path() + "/wnids.txt");
  EXPECT_THAT(error_of("train"), HasSubstr("wnids.txt"));
}

TEST(CatsdogsTest, TheClassIsTheNameUpToTheFirstDot) {
  const TempDir dir;
  for (const char* name : {"dog.1.jpg", "cat.0.jpg", "cat.10.png", "notes.txt", ".x.jpg"}) {
    dir.write(name, golden("file.jpeg_420").bytes);
  }
  const auto dataset = build_dataset({CatsdogsConfig{.path = dir.path()}});
  EXPECT_THAT(dataset->class_names(), ElementsAre("cat", "dog"));
  ASSERT_EQ(dataset->size(), 3);
  Sample sample;
  for (const int64_t i : {0, 1, 2}) {
    read_decoded(*dataset, i, sample);
    EXPECT_EQ(sample.label, i == 2 ? 1 : 0);
  }
  const auto turned =
      build_catsdogs_dataset({.path = dir.path(), .class_names = {"dog", "cat", "cow"}});
  EXPECT_EQ(turned->num_classes(), 3);
  read_decoded(*turned, 2, sample);
  EXPECT_EQ(sample.label, 0);
  const auto error = [](const CatsdogsConfig& config) {
    return message_of<DataError>([&] { build_catsdogs_dataset(config); });
  };
  EXPECT_THAT(error({.path = dir.path(), .class_names = {"dog"}}),
              HasSubstr("cat.0.jpg: the class \"cat\" is none of class_names"));
  EXPECT_THAT(error({.path = dir.path() + "/none"}), HasSubstr("no such folder"));
  const TempDir empty;
  EXPECT_THAT(error({.path = empty.path()}), HasSubstr("no image"));
}

}  // namespace
}  // namespace fovea::data
