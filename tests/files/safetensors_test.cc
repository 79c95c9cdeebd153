#include "fovea/files/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
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
  expect_refusal(std::string(1'000'000, '['), 0, "nested deeper");
}

TEST_F(SafetensorsTest, NamesThatAreNoTextAreShownAndRefused) {
  const auto message = refusal("{\"\xff\x1b[31m\":1}", 0);
  EXPECT_NE(message.find("not JSON"), std::string::npos) << message;
  EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
  expect_refusal(R"({"\u001b[31m":1})", 0, "\\x1b[31m: expected dtype");
  const std::vector<std::byte> data(1);
  const std::vector<SafetensorsEntry> entries = {{"a\xff", "U8", {1}, data}};
  EXPECT_THROW(safetensors_preamble(entries, {}), DataError);
  EXPECT_NO_THROW(safetensors_preamble({}, {{"class_names", "\xff"}}));
}

// A sparse file of 1 TB whose header fits it: opening costs the header alone.
TEST_F(SafetensorsTest, TheDataIsNotReadToOpenAFile) {
  constexpr uint64_t kBytes = uint64_t{1} << 40;
  const auto header =
      fmt::format(R"({{"a":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", kBytes);
  EXPECT_NE(refusal(header, 0).find("truncated"), std::string::npos);
  std::filesystem::resize_file(path_, 8 + header.size() + kBytes);
  EXPECT_EQ(SafetensorsFile::open(path_).entries().at(0).bytes.size(), kBytes);
}

TEST_F(SafetensorsTest, ManyTensorsTakeNoLongerEach) {
  std::vector<SafetensorsEntry> entries;
  for (int i = 0; i < 5'000; ++i) entries.push_back({std::to_string(i), "F32", {0}, {}});
  write_safetensors(path_, entries);
  EXPECT_EQ(SafetensorsFile::open(path_).entries().size(), entries.size());
}

TEST_F(SafetensorsTest, AFileThatChangesMeanwhileIsNoticed) {
  const auto change = [&](const std::function<void()>& act) -> std::string {
    const auto file =
        open(R"({"a":{"dtype":"U8","shape":[20000],"data_offsets":[0,20000]}})", 20000);
    EXPECT_NO_THROW(file.check_unchanged());
    act();
    int64_t sum = 0;
    for (const auto byte : file.find("a")->bytes) sum += static_cast<int64_t>(byte);
    try {
      file.check_unchanged();
    } catch (const DataError& error) {
      return error.what();
    }
    return fmt::format("nothing was noticed in {}", sum);
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(change([&] { std::filesystem::resize_file(path_, 4096); }), "4096 bytes now");
  expect(change([&] { std::filesystem::resize_file(path_, 20'050); }), "20050 bytes now");
  expect(change([&] {
           std::filesystem::resize_file(path_, 10);
           std::filesystem::remove(path_);
         }),
         "pages of it went away");
  expect(change([&] {
           std::fstream(path_, std::ios::in | std::ios::out).seekp(9000).write("y", 1);
           std::filesystem::last_write_time(
               path_, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
         }),
         "another program wrote to it");
  expect(change([&] { std::filesystem::remove(path_); }), "nothing was noticed");
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
