#include "fovea/files/braces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST(BracesTest, ExpandsAsShellsDo) {
  EXPECT_THAT(expand_braces("a.tar"), ElementsAre("a.tar"));
  EXPECT_THAT(expand_braces("t-{0009..0011}.tar"),
              ElementsAre("t-0009.tar", "t-0010.tar", "t-0011.tar"));
  EXPECT_THAT(expand_braces("{3..1}"), ElementsAre("3", "2", "1"));
  EXPECT_THAT(expand_braces("{00..6..3}"), ElementsAre("00", "03", "06"));
  EXPECT_THAT(expand_braces("{6..1..-3}"), ElementsAre("6", "3"));
  EXPECT_THAT(expand_braces("{-1..1}"), ElementsAre("-1", "0", "1"));
  EXPECT_THAT(expand_braces("{a,b}-{0..1}"), ElementsAre("a-0", "a-1", "b-0", "b-1"));
  EXPECT_THAT(expand_braces("x{,y}"), ElementsAre("x", "xy"));
  EXPECT_THAT(expand_braces("{a{1..2},b}"), ElementsAre("a1", "a2", "b"));
  EXPECT_THAT(expand_braces("{one}"), ElementsAre("{one}"));
  EXPECT_THAT(expand_braces("{}"), ElementsAre("{}"));
  EXPECT_EQ(expand_braces("train-{000000..000146}.tar").size(), 147u);
}

TEST(BracesTest, RefusesWhatHasNoEnd) {
  const auto error = [](const std::string& pattern) {
    return message_of<ConfigError>([&] { expand_braces(pattern); });
  };
  EXPECT_THAT(error("a{0..3"), HasSubstr("does not close"));
  EXPECT_THAT(error("{0..9999999}"), HasSubstr("at most 1000000"));
  EXPECT_THAT(error("{0..999}{0..999}{0..1}"), HasSubstr("at most 1000000"));
  EXPECT_THAT(error(std::string(30, '{') + std::string(30, '}')), HasSubstr("braces in more than"));
}

}  // namespace
}  // namespace fovea::data
