#include "fovea/data/datasets/cifar_python.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/registry.h"
#include "fovea/files/input_stream.h"
#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::cut;
using testing::golden_file;
using testing::golden_values;
using testing::gzip;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

std::vector<uint8_t> pixels_of(int64_t image) {
  const auto all = golden_values<uint8_t>("values.cifar");
  return {all.begin() + image * 3072, all.begin() + (image + 1) * 3072};
}

TEST(CifarPythonTest, ReadsThePublishersArchive) {
  const TempDir dir;
  const auto path =
      dir.write("cifar-10-python.tar.gz", golden_file("cifar.cifar-10-python.tar.gz"));
  const auto labels = golden_values<int64_t>("labels.cifar");
  for (const std::string& place : {path, dir.path()}) {
    const auto train = build_dataset({CifarPythonConfig{.path = place}});
    const auto test = build_dataset({CifarPythonConfig{.path = place, .split = "test"}});
    ASSERT_EQ(train->size(), 10);
    ASSERT_EQ(test->size(), 2);
    EXPECT_EQ(train->num_classes(), 10);
    EXPECT_EQ(train->class_names()[3], "cat");
    Sample sample;
    for (int64_t i = 0; i < 12; ++i) {
      i < 10 ? train->read(i, sample) : test->read(i - 10, sample);
      EXPECT_EQ(sample.image().pixels, pixels_of(i)) << i;
      EXPECT_EQ(sample.label, labels[i]);
    }
    EXPECT_THAT(train->describe(3), HasSubstr("data_batch_2[1]"));
  }
}

TEST(CifarPythonTest, ReadsCifar100FineAndCoarse) {
  const TempDir dir;
  const auto path =
      dir.write("cifar-100-python.tar.gz", golden_file("cifar.cifar-100-python.tar.gz"));
  Sample sample;
  const auto fine = build_dataset({CifarPythonConfig{.path = path}});
  ASSERT_EQ(fine->size(), 4);
  EXPECT_EQ(fine->num_classes(), 100);
  fine->read(1, sample);
  EXPECT_EQ(sample.label, 98);
  EXPECT_EQ(sample.image().pixels, pixels_of(1));
  const auto coarse = build_dataset({CifarPythonConfig{.path = path, .labels = "coarse"}});
  EXPECT_EQ(coarse->class_names()[19], "coarse19");
  coarse->read(1, sample);
  EXPECT_EQ(sample.label, 1);
}

class CifarPythonBadInputTest : public ::testing::Test {
 protected:
  CifarPythonBadInputTest() {
    const auto path = dir_.write("good.tar.gz", golden_file("cifar.cifar-10-python.tar.gz"));
    tar_ = read_gzip(path, 1 << 20);
  }
  std::string error_of(const std::vector<uint8_t>& bytes) {
    const auto path = dir_.write("a.tar.gz", bytes);
    return message_of([&] { build_dataset({CifarPythonConfig{.path = path}}); });
  }
  // The first `from` of the archive, replaced by as many bytes; headers get their sum anew.
  std::vector<uint8_t> changed(const std::string& from, const std::string& to) {
    auto bytes = tar_;
    const std::string text(bytes.begin(), bytes.end());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    std::copy(to.begin(), to.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
    return fixed(bytes, at / 512 * 512);
  }
  static std::vector<uint8_t> fixed(std::vector<uint8_t> bytes, size_t header) {
    if (std::memcmp(bytes.data() + header + 257, "ustar", 5) != 0) return bytes;
    std::memset(bytes.data() + header + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += bytes[header + i];
    const std::string digits = fmt::format("{:06o}", sum);
    std::memcpy(bytes.data() + header + 148, digits.data(), 6);
    bytes[header + 154] = 0;
    return bytes;
  }
  TempDir dir_;
  std::vector<uint8_t> tar_;
};

TEST_F(CifarPythonBadInputTest, TheArchiveItself) {
  EXPECT_EQ(build_dataset({CifarPythonConfig{.path = dir_.file("good.tar.gz")}})->size(), 10);
  EXPECT_THAT(error_of(cut(gzip(tar_), 30)), HasSubstr("gzip stream is truncated"));
  EXPECT_NE(error_of(gzip(cut(tar_, tar_.size() / 2))), "");
  EXPECT_NE(error_of({1, 2, 3}), "");
  EXPECT_THAT(
      message_of([&] { build_dataset({CifarPythonConfig{.path = dir_.file("none.tar.gz")}}); }),
      HasSubstr("no such file"));
  EXPECT_THAT(message_of([&] { build_dataset({CifarPythonConfig{.path = dir_.path()}}); }),
              HasSubstr("found no train file of CIFAR's Python version"));
}

TEST_F(CifarPythonBadInputTest, LinksAndNamesThatLeadElsewhere) {
  auto link = tar_;
  link[512 + 156] = '2';
  EXPECT_THAT(error_of(fixed(link, 512)), HasSubstr("is a link or a device"));
  EXPECT_NE(
      error_of(changed("cifar-10-batches-py/data_batch_1", "../../-10-batches-py/data_batch_1")),
      "");
  EXPECT_NE(
      error_of(changed("cifar-10-batches-py/data_batch_1", "/ifar-10-batches-py/data_batch_1")),
      "");
}

TEST_F(CifarPythonBadInputTest, PicklesThatAreMoreThanData) {
  EXPECT_THAT(error_of(changed("cnumpy.core.multiarray\n_reconstruct\n",
                               "cos.path.foo.bar.baz_m\n_reconstruct\n")),
              AllOf(HasSubstr("data_batch_1: it wants to load os.path.foo.bar.baz_m._reconstruct"),
                    HasSubstr("was not run")));
}

TEST_F(CifarPythonBadInputTest, ContentsThatDoNotFit) {
  EXPECT_THAT(error_of(changed("labels", "lapels")), HasSubstr("\"labels\" is missing"));
  EXPECT_THAT(error_of(changed("K\x03K\x09", "K\x03K\x0a")),
              HasSubstr("label 10 of image 1; expected 0 to 9"));
}

}  // namespace
}  // namespace fovea::data
