#include "fovea/core/utf8.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Utf8Test, MeasuresWhatIsValid) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length(std::string_view("\0", 1)), 1u);
  EXPECT_EQ(utf8_length("\xC3\xA9x"), 2u);
  EXPECT_EQ(utf8_length("\xE6\xBC\xA2"), 3u);
  EXPECT_EQ(utf8_length("\xED\x9F\xBF"), 3u);  // the last one before the surrogates
  EXPECT_EQ(utf8_length("\xF0\x9F\x90\x8D"), 4u);
  EXPECT_EQ(utf8_length("\xF4\x8F\xBF\xBF"), 4u);  // U+10FFFF
}

TEST(Utf8Test, RefusesWhatIsNot) {
  for (const char* bad :
       {"", "\x80", "\xC3", "\xC0\xBC", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE6\xBC",
        "\xE6\xBC"
        "a",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(utf8_length(bad), 0u) << bad;
  }
}

TEST(Utf8Test, ATextIsValidToItsEnd) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\xc3\xa9"));
  EXPECT_FALSE(is_utf8("a\xc3"));
  EXPECT_FALSE(is_utf8("\xff"));
}

}  // namespace
}  // namespace fovea
