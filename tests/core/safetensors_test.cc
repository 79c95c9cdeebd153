#include "fovea/core/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "fovea/core/error.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

class SafetensorsTest : public ::testing::Test {
 protected:
  // A file with this header (and its true length, unless another is claimed) and this many bytes of
  // data.
  SafetensorsFile open(const std::string& header, size_t data_bytes,
                       std::optional<uint64_t> claimed = {}) {
    const uint64_t length = claimed.value_or(header.size());
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << header << std::string(data_bytes, 'x');
    file.close();
    return SafetensorsFile::open(path_);
  }

  // The message with which a file is refused.
  std::string refusal(const std::string& header, size_t data_bytes,
                      std::optional<uint64_t> claimed = {}) {
    try {
      open(header, data_bytes, claimed);
    } catch (const DataError& error) {
      return error.what();
    }
    ADD_FAILURE() << "accepted: " << header.substr(0, 200);
    return "";
  }

  void expect_refusal(const std::string& header, size_t data_bytes, const std::string& reason) {
    const auto message = refusal(header, data_bytes);
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  support::TempDir folder_;
  std::string path_ = folder_.file("a.safetensors");
};

TEST_F(SafetensorsTest, WritesWhatItReads) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> steps = {7};
  const std::vector<SafetensorsEntry> entries = {
      {"weights", "F32", {2, 3}, std::as_bytes(std::span(weights))},
      {"step", "I64", {}, std::as_bytes(std::span(steps))},
      {"empty", "BF16", {0, 4}, {}}};
  write_safetensors(path_, entries, {{"format", "pt"}});
  const auto file = SafetensorsFile::open(path_);
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const auto* read = file.find("weights");
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(read->bytes.size(), 24u);
  EXPECT_EQ(std::memcmp(read->bytes.data(), weights.data(), 24), 0);
  EXPECT_EQ(file.find("step")->shape.size(), 0u);
  EXPECT_EQ(file.find("nothing"), nullptr);
}

TEST_F(SafetensorsTest, DataStartsAligned) {
  const std::vector<float> value = {1};
  for (size_t length = 1; length < 12; ++length) {
    const std::vector<SafetensorsEntry> entries = {
        {std::string(length, 'n'), "F32", {1}, std::as_bytes(std::span(value))}};
    EXPECT_EQ(safetensors_preamble(entries, {}).size() % 8, 0u);
  }
}

TEST_F(SafetensorsTest, ReadsTensorsInTheOrderOfTheirBytes) {
  const auto file = open(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                         R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )",
                         6);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[1].bytes.size(), 2u);
}

TEST_F(SafetensorsTest, RefusesHeadersThatLie) {
  const std::string one = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_NE(refusal(one, 4, uint64_t{1} << 62).find("truncated"), std::string::npos);
  EXPECT_NE(refusal(one, 4, 99'999'999).find("truncated"), std::string::npos);
  expect_refusal(one, 3, "truncated");
  expect_refusal(one, 5, "describes 4");
  expect_refusal("{", 0, "not JSON");
  expect_refusal("[]", 0, "not a JSON object");
  expect_refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "need 8");
  expect_refusal(R"({"a":{"dtype":"F3","shape":[1],"data_offsets":[0,4]}})", 4, "F3");
  expect_refusal(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "shape");
  expect_refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4]}})",
                 4, "overflows");
  expect_refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "damaged");
  expect_refusal(R"({"__metadata__":{"a":1}})", 0, "not a string");
}

TEST_F(SafetensorsTest, RefusesGapsOverlapsAndNamesThatComeTwice) {
  const auto two = [](const std::string& second, const std::string& name) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},")" + name +
           R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_NO_THROW(open(two("[4,8]", "b"), 8));
  expect_refusal(two("[5,9]", "b"), 9, "gap");
  expect_refusal(two("[2,6]", "b"), 6, "overlap");
  expect_refusal(two("[4,8]", "a"), 8, "twice");
}

TEST_F(SafetensorsTest, RefusesDeepNesting) {
  expect_refusal(std::string(1'000'000, '['), 0, "nests deeper");
}

TEST_F(SafetensorsTest, NamesWhatIsMissing) {
  EXPECT_THROW(SafetensorsFile::open("/nonexistent/file"), DataError);
  EXPECT_THROW(SafetensorsFile::open(folder_.path()), DataError);
}

TEST_F(SafetensorsTest, FolderThatCannotBeWrittenIsACheckpointError) {
  const std::vector<std::byte> data(16);
  const std::vector<SafetensorsEntry> entries = {{"a", "U8", {16}, data}};
  EXPECT_THROW(write_safetensors("/proc/fovea.safetensors", entries), CheckpointError);
}

}  // namespace
}  // namespace fovea
