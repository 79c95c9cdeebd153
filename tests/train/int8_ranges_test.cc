#include "fovea/train/recipe/int8_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/data/support.h"

namespace fovea::train {
namespace {

using ::testing::HasSubstr;

const Int8Ranges kRanges = {
    .rule = "min_max",
    .num_samples = 300,
    .layers = {{"blocks.0.mlp.fc1", {{-0.1f, 1.0f / 3}, "0123456789abcdef"}},
               {"blocks.0.mlp.fc2", {{-3.4e38f, 1e-40f}, "x"}}},
    .source = "fuzz"};

std::string error_of(const std::string& text) {
  try {
    parse_int8_ranges(text, "ranges.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

// The text with one thing for another.
std::string changed(const std::string& from, const std::string& to) {
  auto text = format_int8_ranges(kRanges);
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(Int8RangesTest, ComeBackToTheBit) {
  EXPECT_TRUE(parse_int8_ranges(format_int8_ranges(kRanges), "fuzz") == kRanges);
}

TEST(Int8RangesTest, DamagedFilesAreRefusedByTheKey) {
  EXPECT_THAT(error_of("{"), HasSubstr("ranges.json"));
  EXPECT_THAT(error_of("{}"), HasSubstr("format"));
  EXPECT_THAT(error_of(changed("fovea.int8_ranges", "other")), HasSubstr("fovea.int8_ranges"));
  EXPECT_THAT(error_of(changed("\"version\": 1", "\"version\": 2")), HasSubstr("fovea calibrate"));
  for (const auto* least : {"\"least\": 0.5", "\"least\": null", "\"least\": -1e39"}) {
    EXPECT_THAT(error_of(changed("\"least\": -0.10000000149011612", least)),
                ::testing::AllOf(HasSubstr("blocks.0.mlp.fc1.least"), HasSubstr("0 at most")));
  }
  EXPECT_THAT(error_of(changed("\"samples\": 300", "\"samples\": \"many\"")), HasSubstr("samples"));
  EXPECT_THAT(error_of(changed("fc2", "fc1")), HasSubstr("blocks.0.mlp.fc1")) << "a layer twice";
}

TEST(Int8RangesTest, LieBesideTheirWeights) {
  EXPECT_EQ(int8_ranges_beside("runs/a/weights.safetensors"), "runs/a/weights.int8_ranges.json");
  EXPECT_EQ(int8_ranges_beside("model.pth"), "model.int8_ranges.json");
  const data::testing::TempDir folder;
  EXPECT_EQ(int8_ranges_beside(folder.path()).rfind(folder.path() + "/", 0), 0u);
}

}  // namespace
}  // namespace fovea::train
