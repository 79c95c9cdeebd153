#include "fovea/data/datasets/arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/medmnist.h"
#include "fovea/data/datasets/npz.h"
#include "fovea/data/datasets/registry.h"
#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using testing::golden_file;
using testing::golden_values;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

class ArraysTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name) {
    return dir_.write(name + ".npz", golden_file("zip." + name + ".npz"));
  }
  TempDir dir_;
};

TEST_F(ArraysTest, MedMnistImages) {
  for (const std::string name : {"gray", "color"}) {
    const MedMnistConfig config{.path = write("medmnist_" + name), .split = "val"};
    const auto dataset = build_dataset({config});
    const auto pixels = golden_values<uint8_t>("values.medmnist_" + name);
    const auto labels = golden_values<uint8_t>("labels.medmnist_" + name);
    ASSERT_EQ(dataset->size(), 2);
    EXPECT_EQ(dataset->form(), SampleForm::kImage);
    EXPECT_EQ(dataset->num_classes(), 4);  // the largest label, 3, is in the test split
    EXPECT_EQ(dataset->describe(1), "medmnist_" + name + ".npz:val_images[1]");
    const auto half = static_cast<ptrdiff_t>(pixels.size() / 2);
    Sample sample;
    dataset->read(1, sample);
    EXPECT_EQ(sample.image().height, 28);
    EXPECT_EQ(sample.image().width, 28);
    EXPECT_EQ(sample.image().channels, name == "gray" ? 1 : 3);
    EXPECT_EQ(sample.image().pixels, std::vector<uint8_t>(pixels.begin() + half, pixels.end()));
    EXPECT_EQ(sample.label, labels[1]);
  }
}

TEST_F(ArraysTest, MedMnistVolumes) {
  const MedMnistConfig config{.path = write("medmnist_volume"), .split = "val"};
  const auto dataset = build_dataset({config});
  EXPECT_EQ(dataset->form(), SampleForm::kVolume);
  Sample sample;
  dataset->read(1, sample);
  EXPECT_EQ(sample.volume().size, (VolumeSize{28, 28, 28}));
  const auto pixels = golden_values<uint8_t>("values.medmnist_volume");
  EXPECT_EQ(sample.volume().values,
            std::vector<float>(pixels.begin() + 28 * 28 * 28, pixels.end()));
}

TEST_F(ArraysTest, NpzOfVolumesWithMasks) {
  NpzConfig config{.path = write("stored"), .labels = "labels"};
  auto dataset = build_dataset({config});
  EXPECT_EQ(dataset->num_classes(), 2);
  Sample sample;
  dataset->read(1, sample);
  EXPECT_EQ(sample.volume().channels, 2);
  EXPECT_EQ(sample.volume().size, (VolumeSize{3, 4, 5}));
  const auto values = golden_values<float>("values.npz");
  EXPECT_EQ(sample.volume().values, std::vector<float>(values.begin() + 120, values.end()));
  EXPECT_EQ(sample.label, 0);
  config = {.path = write("deflated"), .masks = "masks", .num_classes = 3};
  dataset = build_dataset({config});
  EXPECT_TRUE(dataset->has_masks());
  dataset->read(1, sample);
  const auto masks = golden_values<int16_t>("masks.npz");
  EXPECT_EQ(sample.mask.classes, std::vector<int32_t>(masks.begin() + 60, masks.end()));
}

TEST_F(ArraysTest, WhatDoesNotFit) {
  const auto path = write("stored");
  const auto error = [](NpzConfig config) { return message_of([&] { build_dataset({config}); }); };
  EXPECT_THAT(error({.path = path, .labels = "masks"}), HasSubstr("labels of shape [2, 3, 4, 5]"));
  EXPECT_THAT(error({.path = path, .masks = "labels", .num_classes = 2}),
              HasSubstr("masks of shape [2]; expected [2, 3, 4, 5]"));
  EXPECT_THAT(error({.path = path, .labels = "labels", .num_classes = 1}),
              HasSubstr("sample 0 has label 1; expected 0 to 0"));
  EXPECT_THAT(error({.path = path, .axes = "NHWC"}), HasSubstr("\"NHWC\" for 5 dimensions"));
  EXPECT_THAT(error({.path = path, .axes = "CNDHW"}), HasSubstr("do not begin with N"));
  EXPECT_THAT(error({.path = path, .masks = "masks"}), HasSubstr("give num_classes"));
  EXPECT_THAT(error({.path = write("objects")}),
              HasSubstr("pickled objects, which are never read"));
  EXPECT_THAT(error({.path = dir_.file("none.npz")}), HasSubstr("cannot open the file"));
  const MedMnistConfig other{.path = path};
  EXPECT_THAT(message_of([&] { build_dataset({other}); }),
              HasSubstr("no array \"train_images\"; there are images, labels, masks"));
}

TEST_F(ArraysTest, GuessesAxes) {
  EXPECT_EQ(guess_axes({9, 28, 28}), "NHW");
  EXPECT_EQ(guess_axes({9, 28, 28, 3}), "NHWC");
  EXPECT_EQ(guess_axes({9, 28, 28, 28}), "NDHW");
  EXPECT_EQ(guess_axes({9, 2, 28, 28, 28}), "NCDHW");
}

}  // namespace
}  // namespace fovea::data
