#include "fovea/data/datasets/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "fovea/data/datasets/registry.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

// One record: labels, then 1024 red, green and blue bytes; red counts up, green is 100, blue is
// 200.
void append_record(std::vector<uint8_t>& bytes, const std::vector<uint8_t>& labels) {
  bytes.insert(bytes.end(), labels.begin(), labels.end());
  for (int i = 0; i < 1024; ++i) bytes.push_back(static_cast<uint8_t>(i));
  bytes.insert(bytes.end(), 1024, 100);
  bytes.insert(bytes.end(), 1024, 200);
}

std::vector<uint8_t> cifar10_file(const std::vector<uint8_t>& labels) {
  std::vector<uint8_t> bytes;
  for (const uint8_t label : labels) append_record(bytes, {label});
  return bytes;
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "name" + std::to_string(i) + "\r\n";
  return text + "\n";
}

TEST(CifarTest, ReadsTheTrainingFilesOfCifar10InOrder) {
  const TempDir dir;
  dir.write("data_batch_1.bin", cifar10_file({3, 9}));
  dir.write("data_batch_2.bin", cifar10_file({0}));
  dir.write("test_batch.bin", cifar10_file({7}));
  dir.write("batches.meta.txt", lines(10));
  const auto train = build_dataset({CifarConfig{.path = dir.path()}});
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->num_classes(), 10);
  EXPECT_EQ(train->class_names()[9], "name9");
  Sample sample;
  train->read(1, sample);
  EXPECT_EQ(sample.label, 9);
  EXPECT_EQ(sample.image().height, 32);
  EXPECT_EQ(sample.image().width, 32);
  EXPECT_EQ(sample.image().channels, 3);
  EXPECT_EQ(
      std::vector<uint8_t>(sample.image().pixels.begin() + 15, sample.image().pixels.begin() + 21),
      (std::vector<uint8_t>{5, 100, 200, 6, 100, 200}));
  train->read(2, sample);
  EXPECT_EQ(sample.label, 0);
  EXPECT_EQ(train->describe(2), "data_batch_2.bin[0]");
  EXPECT_THROW(train->read(3, sample), Error);
  EXPECT_EQ(build_cifar_dataset({.path = dir.path(), .split = "test"})->size(), 1);
}

TEST(CifarTest, ReadsFineLabelsOfCifar100InItsArchiveFolder) {
  const TempDir dir;
  std::vector<uint8_t> bytes;
  append_record(bytes, {19, 99});
  append_record(bytes, {2, 42});
  dir.write("cifar-100-binary/train.bin", bytes);
  const auto dataset = build_cifar_dataset({.path = dir.path()});
  EXPECT_EQ(dataset->num_classes(), 100);
  EXPECT_TRUE(dataset->class_names().empty());
  Sample sample;
  dataset->read(1, sample);
  EXPECT_EQ(sample.label, 42);
  EXPECT_EQ(sample.image().pixels[2], 200);
}

TEST(CifarTest, BadInputIsNamed) {
  const TempDir dir;
  const auto error = [&](const CifarConfig& config) {
    return message_of<DataError>([&] { build_cifar_dataset(config); });
  };
  EXPECT_THAT(error({.path = dir.path() + "/none"}), HasSubstr("none: no such folder"));
  EXPECT_THAT(error({.path = dir.path()}), HasSubstr("found no train file of CIFAR"));
  auto bytes = cifar10_file({1, 2});
  bytes.pop_back();
  dir.write("test_batch.bin", bytes);
  EXPECT_THAT(error({.path = dir.path(), .split = "test"}),
              AllOf(HasSubstr("test_batch.bin: 6145 bytes"), HasSubstr("multiple of 3073")));
  dir.write("test_batch.bin", std::string());
  EXPECT_THAT(error({.path = dir.path(), .split = "test"}), HasSubstr("0 bytes"));
  dir.write("test_batch.bin", cifar10_file({1, 10}));
  EXPECT_THAT(error({.path = dir.path(), .split = "test"}),
              HasSubstr("record 1 has label 10; expected 0 to 9"));
  EXPECT_THAT(error({.path = dir.path(), .split = "test", .variant = "cifar100"}),
              HasSubstr("found no test file"));
  dir.write("test_batch.bin", cifar10_file({1}));
  dir.write("batches.meta.txt", lines(9));
  EXPECT_THAT(error({.path = dir.path(), .split = "test"}),
              HasSubstr("9 class names; expected 10"));
}

}  // namespace
}  // namespace fovea::data
