// What .zarray may say; arrays of zarr and tensorstore themselves:
// tests/weights/t5x_folder_test.cc.
#include "fovea/files/zarr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string zarray(const std::string& key = "", const std::string& value = "") {
  std::string text;
  for (const auto& [name, usual] :
       std::vector<std::pair<std::string, std::string>>{{"zarr_format", "2"},
                                                        {"shape", "[3, 4]"},
                                                        {"chunks", "[2, 4]"},
                                                        {"dtype", "\"<f4\""},
                                                        {"compressor", "null"},
                                                        {"fill_value", "null"},
                                                        {"order", "\"C\""},
                                                        {"filters", "null"}}) {
    text += (text.empty() ? "{\"" : ", \"") + name + "\": " + (name == key ? value : usual);
  }
  return text + "}";
}

std::string refusal(const std::string& key, const std::string& value) {
  try {
    parse_zarr_header(zarray(key, value), "a/.zarray");
  } catch (const DataError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(ZarrTest, RefusesWhatItDoesNotReadByName) {
  EXPECT_EQ(parse_zarr_header(zarray(), "a").chunks, (std::vector<int64_t>{2, 4}));
  EXPECT_THAT(refusal("zarr_format", "3"), HasSubstr("zarr_format: found 3; expected format 2"));
  EXPECT_THAT(refusal("compressor", "{\"id\": \"blosc\"}"),
              AllOf(HasSubstr("a/.zarray: compressor.id"), HasSubstr("blosc"), HasSubstr("zstd")));
  EXPECT_THAT(refusal("filters", "[{\"id\": \"delta\"}]"), HasSubstr("no filters"));
  EXPECT_THAT(refusal("dtype", "\"<u4\""), HasSubstr("<u4"));
  EXPECT_THAT(refusal("dtype", "\"f4\""), HasSubstr("f4"));
  EXPECT_THAT(refusal("dtype", "[[\"a\", \"<f4\"]]"), HasSubstr("dtype"));
  EXPECT_THAT(refusal("order", "\"K\""), HasSubstr("C or F"));
  EXPECT_THAT(refusal("shape", "[3, 0]"), HasSubstr("sizes from 1"));
  EXPECT_THAT(refusal("chunks", "[0, 4]"), HasSubstr("sizes from 1"));
  EXPECT_THAT(refusal("chunks", "[2]"), HasSubstr("2 numbers"));
  EXPECT_THAT(refusal("shape", "[4000000000, 4000000000]"), HasSubstr("at most 17179869184 bytes"));
  EXPECT_THAT(refusal("chunks", "[4000000000, 4000000000]"), HasSubstr("at most"));
  EXPECT_THAT(refusal("shape", "[3, 40000000]"), HasSubstr("at most 1048576 chunks"));
  EXPECT_THAT(refusal("fill_value", "\"AAAAAA==\""), HasSubstr("fill_value"));
}

TEST(ZarrTest, ChunksAreOfTheirSize) {
  const support::TempDir folder;
  const auto read = [&](const std::string& text) {
    folder.write("a/.zarray", text);
    try {
      const auto header = read_zarr_header(folder.file("a"));
      return std::to_string(read_zarr(folder.file("a"), header).bytes.size());
    } catch (const DataError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(read(zarray()), "48");  // no chunk at all: zeros
  folder.write("a/1.0", std::string(31, 'x'));
  EXPECT_THAT(read(zarray()), AllOf(HasSubstr("a/1.0: 31 bytes"), HasSubstr("has 32")));
  for (const auto* id : {"gzip", "zlib", "zstd"}) {
    EXPECT_THAT(read(zarray("compressor", std::string("{\"id\": \"") + id + "\"}")),
                AllOf(HasSubstr("a/1.0"), HasSubstr("is damaged")))
        << id;
  }
  auto large = zarray("shape", "[500, 1000000]");
  large.replace(large.find("[2, 4]"), 6, "[500, 1000000]");
  EXPECT_THAT(read(large), HasSubstr("2000000000 of its 2000000000 bytes have no chunk"));
  std::filesystem::remove(folder.file("a/.zarray"));
  folder.write("a/zarr.json", std::string("{}"));
  EXPECT_THROW(read_zarr_header(folder.file("a")), DataError);
}

}  // namespace
}  // namespace fovea
