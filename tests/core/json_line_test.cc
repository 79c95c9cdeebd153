#include "fovea/core/json_line.h"

#include <gtest/gtest.h>

#include <string>

namespace fovea {
namespace {

const std::string kText =
    "{\"version\": 1,\n"                                 // 1
    " \"name\": \"a \\\"quoted, [text] {\",\n"           // 2
    " \"points\": [\n"                                   // 3
    "  {\"ms\": 1, \"list\": [[1, 2], {\"ms\": 9}]},\n"  // 4
    "  {\"batch\": 8,\n"                                 // 5
    "   \"ms\": -2}\n"                                   // 6
    " ],\n"                                              // 7
    " \"last\": null}\n";                                // 8

TEST(JsonLineTest, AValueHasTheLineThatItStandsIn) {
  EXPECT_EQ(json_line_of(kText, "version"), 1);
  EXPECT_EQ(json_line_of(kText, "name"), 2);
  EXPECT_EQ(json_line_of(kText, "points[0].ms"), 4);
  EXPECT_EQ(json_line_of(kText, "points[0].list[1].ms"), 4);
  EXPECT_EQ(json_line_of(kText, "points[1].ms"), 6);
  EXPECT_EQ(json_line_of(kText, "last"), 8);
}

TEST(JsonLineTest, OfWhatIsNotThereTheNearestAroundIt) {
  EXPECT_EQ(json_line_of(kText, "points[1].other"), 5);
  EXPECT_EQ(json_line_of(kText, "points[2].ms"), 3);
  EXPECT_EQ(json_line_of(kText, "other"), 0);
  EXPECT_EQ(json_line_of(kText, ""), 0);
  EXPECT_EQ(json_line_of(kText, "points[x]"), 0);
  EXPECT_EQ(json_line_of("[1, 2]", "points"), 0);
}

// Whatever is cut off, it comes to an end, and what stands before the cut is found.
TEST(JsonLineTest, ATextMayBeCutOff) {
  for (size_t size = 0; size < kText.size(); ++size) {
    const auto cut = kText.substr(0, size);
    for (const auto* path : {"version", "name", "points[1].ms", "last"}) {
      const auto line = json_line_of(cut, path);
      EXPECT_TRUE(line == 0 || line <= json_line_of(kText, path)) << path << " of " << size;
    }
  }
  EXPECT_EQ(json_line_of(kText.substr(0, kText.find("-2")), "points[1].batch"), 5);
}

}  // namespace
}  // namespace fovea
