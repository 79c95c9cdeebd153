#include "fovea/data/datasets/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "fovea/data/datasets/registry.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::gzip;
using ::testing::HasSubstr;
using testing::idx_bytes;
using testing::message_of;
using testing::TempDir;

std::vector<uint8_t> ramp(size_t count) {
  std::vector<uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

// Five 2x3 images with labels 0, 1, 2, 0, 1.
const std::vector<uint8_t> kImages = idx_bytes({5, 2, 3}, ramp(30));
const std::vector<uint8_t> kLabels = idx_bytes({5}, {0, 1, 2, 0, 1});

TEST(IdxTest, ReadsAFolderPlainAndCompressed) {
  const TempDir plain;
  plain.write("train-images-idx3-ubyte", kImages);
  plain.write("train-labels-idx1-ubyte", kLabels);
  const TempDir compressed;
  compressed.write("t10k-images-idx3-ubyte.gz", gzip(kImages));
  compressed.write("t10k-labels-idx1-ubyte.gz", gzip(kLabels));
  const auto train = build_dataset({IdxConfig{.path = plain.path()}});
  const auto test = build_dataset({IdxConfig{.path = compressed.path(), .split = "test"}});
  for (const auto& dataset : {train, test}) {
    ASSERT_EQ(dataset->size(), 5);
    EXPECT_EQ(dataset->num_classes(), 3);
    Sample sample;
    dataset->read(2, sample);
    EXPECT_EQ(sample.label, 2);
    EXPECT_EQ(sample.image().height, 2);
    EXPECT_EQ(sample.image().width, 3);
    EXPECT_EQ(sample.image().channels, 1);
    EXPECT_EQ(sample.image().pixels, (std::vector<uint8_t>{12, 13, 14, 15, 16, 17}));
  }
  EXPECT_EQ(test->describe(2), "t10k-images-idx3-ubyte.gz[2]");
}

TEST(IdxTest, ReadsChannelsAndImagesWithoutLabels) {
  const TempDir dir;
  const std::string path = dir.write("rgb", idx_bytes({2, 2, 2, 3}, ramp(24)));
  const auto dataset = build_idx_dataset({.images = path});
  EXPECT_EQ(dataset->num_classes(), 0);
  Sample sample;
  dataset->read(1, sample);
  EXPECT_EQ(sample.label, -1);
  EXPECT_EQ(sample.image().channels, 3);
  EXPECT_EQ(sample.image().pixels.front(), 12);
  EXPECT_THROW(dataset->read(2, sample), Error);
}

class IdxBadInputTest : public ::testing::Test {
 protected:
  std::string error_of(const std::vector<uint8_t>& images, const std::vector<uint8_t>& labels,
                       IdxConfig config = {}) {
    config.images = dir_.write("images", images);
    config.labels = dir_.write("labels", labels);
    return message_of<DataError>([&] { build_idx_dataset(config); });
  }
  TempDir dir_;
};

TEST_F(IdxBadInputTest, WrongMagic) {
  auto bytes = kImages;
  bytes[0] = 0x89;
  EXPECT_THAT(error_of(bytes, kLabels),
              AllOf(HasSubstr("/images: not an IDX file"), HasSubstr("0x89000803")));
  EXPECT_THAT(error_of({1, 2}, kLabels), HasSubstr("too few"));
  EXPECT_THAT(error_of({}, kLabels), HasSubstr("too few"));
}

TEST_F(IdxBadInputTest, OtherElementTypesAndDimensions) {
  auto bytes = kImages;
  bytes[2] = 0x0D;
  EXPECT_THAT(error_of(bytes, kLabels), HasSubstr("element type 0x0d"));
  bytes = kImages;
  bytes[3] = 9;
  EXPECT_THAT(error_of(bytes, kLabels), HasSubstr("9 dimensions"));
  EXPECT_THAT(error_of(idx_bytes({0, 2, 3}, {}), kLabels),
              HasSubstr("dimension 0 of the IDX header is 0"));
  EXPECT_THAT(error_of(kLabels, kLabels), HasSubstr("looks like a labels file"));
  EXPECT_THAT(error_of(kImages, kImages), HasSubstr("looks like an images file"));
}

TEST_F(IdxBadInputTest, TruncatedAndTooLong) {
  EXPECT_THAT(error_of(idx_bytes({5, 2, 3}, ramp(29)), kLabels),
              HasSubstr("announces 30 bytes of data, the file holds 29"));
  EXPECT_THAT(error_of(idx_bytes({5, 2, 3}, ramp(31)), kLabels), HasSubstr("holds more than 30"));
  EXPECT_THAT(error_of({0, 0, 8, 3, 0, 0}, kLabels), HasSubstr("header is truncated"));
}

TEST_F(IdxBadInputTest, DamagedGzip) {
  std::vector<uint8_t> noise(100000);
  for (size_t i = 0; i < noise.size(); ++i)
    noise[i] = static_cast<uint8_t>((i * 2654435761u) >> 13);
  const auto whole = gzip(idx_bytes({1000, 10, 10}, noise));
  const auto labels = gzip(idx_bytes({1000}, std::vector<uint8_t>(1000)));
  auto cut = whole;
  cut.resize(cut.size() / 2);
  EXPECT_THAT(error_of(cut, labels), AllOf(HasSubstr("/images: "), HasSubstr("truncated")));
  auto without_trailer = whole;
  without_trailer.resize(whole.size() - 8);
  EXPECT_THAT(error_of(without_trailer, labels), HasSubstr("truncated"));
  auto flipped = whole;
  flipped[flipped.size() / 2] ^= 0xff;
  EXPECT_THAT(error_of(flipped, labels), HasSubstr("damaged gzip stream"));
}

// A header of terabytes costs an error, not the memory.
TEST_F(IdxBadInputTest, HostileSizes) {
  EXPECT_THAT(error_of(idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, {}), kLabels),
              HasSubstr("multiply"));
  EXPECT_THAT(error_of(idx_bytes({0xffffffff, 1024, 1024}, {}), kLabels),
              HasSubstr("the file holds 0"));
}

TEST_F(IdxBadInputTest, CountsAndLabelsThatDoNotFit) {
  EXPECT_THAT(error_of(kImages, idx_bytes({4}, {0, 1, 2, 0})),
              AllOf(HasSubstr("labels holds 4 labels"), HasSubstr("images holds 5 images")));
  EXPECT_THAT(error_of(kImages, kLabels, {.num_classes = 2}),
              HasSubstr("sample 2 has label 2, but there are 2"));
  EXPECT_THAT(error_of(kImages, kLabels, {.class_names = {"a", "b"}}),
              HasSubstr("there are 2 classes"));
}

TEST(IdxTest, NamesTheFilesThatAreMissing) {
  const TempDir dir;
  dir.write("train-images-idx3-ubyte", kImages);
  EXPECT_THAT(message_of<DataError>([&] { build_idx_dataset({.path = dir.path()}); }),
              HasSubstr("found neither train-labels-idx1-ubyte nor"));
  EXPECT_THAT(message_of<DataError>([] { build_idx_dataset({.path = "no/such/folder"}); }),
              HasSubstr("no/such/folder: no such folder"));
  EXPECT_THAT(message_of<DataError>([] { build_idx_dataset({.images = "no/such/file"}); }),
              HasSubstr("no/such/file: cannot open"));
}

TEST(IdxTest, ValidatesItsConfig) {
  const auto issues_of = [](const IdxConfig& config) {
    ConfigIssues issues;
    config.validate(issues);
    return issues.all().size();
  };
  EXPECT_EQ(issues_of({.path = "a"}), 0u);
  EXPECT_EQ(issues_of({.images = "a", .labels = "b"}), 0u);
  EXPECT_EQ(issues_of({}), 1u);
  EXPECT_EQ(issues_of({.path = "a", .images = "b"}), 1u);
  EXPECT_EQ(issues_of({.path = "a", .class_names = {"x", "y"}, .num_classes = 3}), 1u);
}

// The real set where it is installed (Debian: dataset-fashion-mnist).
TEST(IdxTest, ReadsFashionMnist) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is not installed";
  const auto dataset = build_idx_dataset({.path = folder, .split = "test"});
  ASSERT_EQ(dataset->size(), 10000);
  EXPECT_EQ(dataset->num_classes(), 10);
  std::vector<int64_t> counts(10);
  double sum = 0;
  Sample sample;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    dataset->read(i, sample);
    ++counts[sample.label];
    for (const uint8_t pixel : sample.image().pixels) sum += pixel;
  }
  EXPECT_EQ(counts, std::vector<int64_t>(10, 1000));
  EXPECT_NEAR(sum / (10000.0 * 784 * 255), 0.2868, 0.0005);
}

}  // namespace
}  // namespace fovea::data
