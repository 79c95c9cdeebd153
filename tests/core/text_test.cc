#include "fovea/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace fovea {
namespace {

using ::testing::ElementsAre;

template <class Take>
std::vector<std::string_view> all_of(std::string_view text, Take take) {
  std::vector<std::string_view> parts;
  while (!text.empty()) parts.push_back(take(text));
  return parts;
}

TEST(TextTest, TakesLinesWithAndWithoutAnEnd) {
  EXPECT_THAT(all_of("a b\n\nc\r\nd", &take_line), ElementsAre("a b", "", "c\r", "d"));
  EXPECT_THAT(all_of("one\n", &take_line), ElementsAre("one"));
}

TEST(TextTest, TakesWordsBetweenBlanks) {
  std::string_view line = " \ta  bc\r";
  EXPECT_EQ(take_word(line), "a");
  EXPECT_EQ(take_word(line), "bc");
  EXPECT_EQ(take_word(line), "");
  EXPECT_EQ(take_word(line), "");
}

TEST(TextTest, LowersLettersOfAsciiAlone) {
  EXPECT_EQ(lowered("AZaz09.NII@[\xC3\x84"), "azaz09.nii@[\xC3\x84");
}

TEST(TextTest, TellsLettersAndDigitsOfAsciiAlone) {
  for (const char c : std::string_view("azAZ09")) EXPECT_TRUE(is_letter_or_digit(c)) << c;
  for (const char c : std::string_view("@[`{/:_\xC3\0", 9))
    EXPECT_FALSE(is_letter_or_digit(c)) << c;
  EXPECT_TRUE(is_hexadecimal("0123456789abcdef"));
  EXPECT_FALSE(is_hexadecimal("0A"));
  EXPECT_FALSE(is_hexadecimal("0g"));
}

TEST(TextTest, TrimsBlanksAndLineEnds) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

}  // namespace
}  // namespace fovea
