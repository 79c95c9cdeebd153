#include "fovea/data_tools/prepare/imagenet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fovea/core/files.h"
#include "fovea/data/datasets/find_datasets.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/registry.h"
#include "tests/data/archive_support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::golden;
using ::testing::HasSubstr;
using testing::image_file;
using testing::message_of;
using testing::NamedBytes;
using testing::tar_of;
using testing::TempDir;
using testing::to_bytes;

// The publisher's three archives with the first two of the classes: number 1 is n02119789 (kit
// fox), number 2 n02100735 (English setter); sorted by WNID they are 1 and 0.
class ImagenetTest : public ::testing::Test {
 protected:
  ImagenetTest() {
    options_.train = write("train.tar", train_);
    options_.val = write("val.tar", val_);
    write_devkit("2\n1\n2\n");
    options_.out = dir_.path() + "/out";
    options_.pack.threads = 2;
  }

  std::string write(const std::string& name, const NamedBytes& files) const {
    return dir_.write(name, to_bytes(tar_of(files)));
  }
  void write_devkit(const std::string& truth) {
    const auto tar =
        tar_of({{"ILSVRC2012_devkit_t12/readme.txt", "read me"},
                {"ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", truth}});
    options_.devkit = dir_.write("devkit.tar.gz", testing::gzip(to_bytes(tar)));
  }
  std::string error() const {
    return message_of<DataError>([&] { prepare_imagenet(options_, classes_); });
  }

  const NamedBytes train_ = {
      {"n02119789.tar",
       tar_of({{"n02119789_2.JPEG", image_file("jpeg_gray")}, {"n02119789_1.JPEG", image_file()}})},
      {"n02100735.tar", tar_of({{"n02100735_7.JPEG", image_file("jpeg_cmyk")}})}};
  const NamedBytes val_ = {{"ILSVRC2012_val_00000002.JPEG", image_file("jpeg_gray")},
                           {"ILSVRC2012_val_00000001.JPEG", image_file()},
                           {"ILSVRC2012_val_00000003.JPEG", image_file("jpeg_cmyk")}};
  TempDir dir_;
  ImagenetOptions options_;
  const ImagenetClasses classes_ =
      imagenet_classes({{"n02119789", "kit fox"}, {"n02100735", "English setter"}}, 0);
};

TEST_F(ImagenetTest, TheDevkitHasTheTruth) {
  write_devkit("2\n1\r\n2");
  ImagenetClasses classes = classes_;
  read_imagenet_devkit(options_.devkit, classes);
  EXPECT_THAT(classes.wnids, ElementsAre("n02100735", "n02119789"));
  EXPECT_THAT(classes.names, ElementsAre("English setter", "kit fox"));
  EXPECT_THAT(classes.ground_truth, ElementsAre(0, 1, 0));
}

// The publisher's numbers of the first and the last images of validation, and the labels that
// everybody else gives them (Caffe's val.txt).
TEST(ImagenetClassesTest, NumbersAreThePublishers) {
  const ImagenetClasses classes = ilsvrc2012_classes();
  ASSERT_EQ(classes.wnids.size(), 1000);
  EXPECT_TRUE(std::is_sorted(classes.wnids.begin(), classes.wnids.end()));
  EXPECT_EQ(std::set<std::string>(classes.names.begin(), classes.names.end()).size(), 1000);
  std::vector<int64_t> labels = classes.by_number;
  std::sort(labels.begin(), labels.end());
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(labels[static_cast<size_t>(i)], i);
  const std::vector<std::pair<size_t, int64_t>> expected = {
      {490, 65}, {361, 970}, {171, 230}, {822, 809}, {297, 516},
      {10, 283}, {495, 26},  {128, 232}, {848, 982}, {186, 355}};
  for (const auto& [number, label] : expected)
    EXPECT_EQ(classes.by_number[number - 1], label) << number;
  EXPECT_EQ(classes.wnids[65], "n01751748");
  EXPECT_EQ(classes.names[65], "sea snake");
  EXPECT_EQ(classes.wnids.front(), "n01440764");
  EXPECT_EQ(classes.names.front(), "tench");
}

TEST_F(ImagenetTest, UnpacksIntoClassFolders) {
  const auto report = prepare_imagenet(options_, classes_);
  EXPECT_EQ(report.classes, 2);
  EXPECT_EQ(report.train, 3);
  EXPECT_EQ(report.val, 3);
  EXPECT_EQ(report.resumed, 0);
  const std::map<std::string, std::string> expected = {
      {"train/n02119789/n02119789_1.JPEG", image_file()},
      {"train/n02119789/n02119789_2.JPEG", image_file("jpeg_gray")},
      {"train/n02100735/n02100735_7.JPEG", image_file("jpeg_cmyk")},
      {"val/n02100735/ILSVRC2012_val_00000001.JPEG", image_file()},
      {"val/n02119789/ILSVRC2012_val_00000002.JPEG", image_file("jpeg_gray")},
      {"val/n02100735/ILSVRC2012_val_00000003.JPEG", image_file("jpeg_cmyk")}};
  for (const auto& [name, bytes] : expected) {
    EXPECT_EQ(read_file(options_.out + "/" + name, 1 << 20), bytes) << name;
  }
  EXPECT_EQ(read_file(options_.out + "/classes.txt", 1 << 10),
            "n02100735\tEnglish setter\nn02119789\tkit fox\n");
  EXPECT_EQ(build_folder_dataset({.path = options_.out + "/val"})->size(), 3);
  // A call that was stopped: a file is missing, one was cut by a power cut, one is half-written.
  fs::remove(options_.out + "/val/n02119789/ILSVRC2012_val_00000002.JPEG");
  fs::resize_file(options_.out + "/train/n02119789/n02119789_1.JPEG", 10);
  dir_.write("out/val/n02119789/.ILSVRC2012_val_00000002.JPEG.part", std::string("half"));
  EXPECT_EQ(prepare_imagenet(options_, classes_).resumed, 4);
  for (const auto& [name, bytes] : expected) {
    EXPECT_EQ(read_file(options_.out + "/" + name, 1 << 20), bytes) << name;
  }
  EXPECT_FALSE(fs::exists(options_.out + "/val/n02119789/.ILSVRC2012_val_00000002.JPEG.part"));
}

TEST_F(ImagenetTest, PacksWithoutUnpacking) {
  const auto train = open_imagenet_train(options_.train, classes_);
  EXPECT_THAT(train->describe(1), HasSubstr("train.tar/n02119789/n02119789_1.JPEG"));
  for (const std::string to : {"packed", "wds"}) {
    options_.to = to;
    options_.out = dir_.path() + "/" + to;
    EXPECT_EQ(prepare_imagenet(options_, classes_).resumed, 0);
    EXPECT_EQ(prepare_imagenet(options_, classes_).resumed, 6);
    const auto val = build_dataset(find_datasets(options_.out + "/val").front().config);
    ASSERT_EQ(val->size(), 3);
    Sample sample;
    for (int64_t i = 0; i < 3; ++i) {
      read_decoded(*val, i, sample);
      EXPECT_EQ(sample.label, i == 1 ? 1 : 0);
    }
    EXPECT_EQ(sample.image().pixels, golden("decoded.jpeg_cmyk").bytes);
    const auto packed = build_dataset(find_datasets(options_.out + "/train").front().config);
    int64_t sum = 0;
    for (int64_t i = 0; i < 3; ++i) {
      read_decoded(*packed, i, sample);
      sum += sample.label;
    }
    EXPECT_EQ(sum, 2);
  }
}

TEST_F(ImagenetTest, ArchivesThatDoNotFitAreNamed) {
  options_.train = write("train.tar", {train_[0]});
  EXPECT_THAT(error(), AllOf(HasSubstr("train.tar: no n02100735.tar"), HasSubstr("not whole")));
  options_.train = write("train.tar", {train_[0], train_[1], {"n3.tar", tar_of({})}});
  EXPECT_THAT(error(), HasSubstr("3 archives for 2 classes"));
  const auto& inner = train_[1].second;
  options_.train = write("train.tar", {train_[0], {"n02100735.tar", inner.substr(0, 1024)}});
  EXPECT_THAT(error(), AllOf(HasSubstr("train.tar/n02100735.tar"), HasSubstr("truncated")));
  options_.train = write("train.tar", {train_[0], {"n02100735.tar", tar_of({})}});
  EXPECT_THAT(error(), HasSubstr("n02100735.tar: empty"));
  options_.train = write("train.tar", {train_[0], {"n02100735.tar", tar_of({{"../x.JPEG", "x"}})}});
  EXPECT_THAT(error(), HasSubstr("leads out"));
  options_.train = write("train.tar", {train_[0], {"n02100735.tar", tar_of({{"a/x.JPEG", "x"}})}});
  EXPECT_THAT(error(), HasSubstr("\"a/x.JPEG\" stands in a folder"));
  options_.train = write("train.tar", train_);
  options_.val = write("val.tar", {val_[0], val_[1]});
  EXPECT_THAT(error(), HasSubstr("val.tar: 2 images, but the devkit has classes of 3"));
  options_.val = write("val.tar", {val_[0], val_[1], {"ILSVRC2012_val_00000009.JPEG", "x"}});
  EXPECT_THAT(error(), HasSubstr("\"ILSVRC2012_val_00000009.JPEG\" stands where image 3 is"));
  options_.val = write("val.tar", {val_[0], val_[1], val_[1]});
  EXPECT_THAT(error(), HasSubstr("stands there twice"));
}

TEST_F(ImagenetTest, DevkitsThatDoNotFitAreNamed) {
  write_devkit("2\n3\n");
  EXPECT_THAT(error(), HasSubstr("ground_truth.txt:2: \"3\"; expected a class, 1 to 2"));
  write_devkit("2\nx\n");
  EXPECT_THAT(error(), HasSubstr("ground_truth.txt:2: \"x\""));
  options_.devkit = dir_.write("devkit.tar.gz", testing::gzip(to_bytes(tar_of({{"a", "x"}}))));
  EXPECT_THAT(error(), HasSubstr("devkit.tar.gz: no ILSVRC2012_validation_ground_truth.txt"));
}

}  // namespace
}  // namespace fovea::data
