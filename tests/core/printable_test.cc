#include "fovea/core/printable.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(PrintableTest, KeepsTextOfAnyScript) {
  EXPECT_EQ(printable("caf\xC3\xA9 \xE6\xBC\xA2 \xF0\x9F\x90\x8D \\ \"x\""),
            "caf\xC3\xA9 \xE6\xBC\xA2 \xF0\x9F\x90\x8D \\ \"x\"");
}

TEST(PrintableTest, EscapesWhatSteersATerminal) {
  EXPECT_EQ(printable("a\x1b[31mb\n\t\x7f"), "a\\x1b[31mb\\x0a\\x09\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J\xC2\xA0"),
            "\\xc2\\x9b"
            "2J\xC2\xA0");                                          // CSI as one character
  EXPECT_EQ(printable("a\xE2\x80\xAEgpj"), "a\\xe2\\x80\\xaegpj");  // right to left
  EXPECT_EQ(printable("\xE2\x81\xA6\xE2\x80\xA6"), "\\xe2\\x81\\xa6\xE2\x80\xA6");
}

TEST(PrintableTest, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xFFz\xC3"), "\\xffz\\xc3");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(PrintableTest, CutsALongTextBetweenCharacters) {
  EXPECT_EQ(printable_start("abcdef", 3), "abc...");
  EXPECT_EQ(printable_start("abc", 3), "abc");
  EXPECT_EQ(printable_start("ab\xC3\xA9", 3), "ab\xC3\xA9");
}

TEST(PrintableTest, KeepsTheLinesOfAText) {
  EXPECT_EQ(printable_lines("a\n\tb\r\x1b"), "a\n\tb\\x0d\\x1b");
}

}  // namespace
}  // namespace fovea
