#include "fovea/net/header_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace fovea::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

HttpHeaders headers_of(std::initializer_list<std::string_view> lines) {
  HeaderLines reader;
  for (const auto line : lines) EXPECT_TRUE(reader.take(line));
  return reader.headers();
}

TEST(HeaderLinesTest, NamesAreInLowerCaseAndValuesWithoutBlanks) {
  EXPECT_THAT(headers_of({"HTTP/1.1 200 OK\r\n", "X-Linked-Etag: \"abc\"\r\n",
                          "Content-Length:12\r\n", "Empty:\r\n", "Time:\t a:b  c \r\n", "\r\n"}),
              ElementsAre(Pair("x-linked-etag", "\"abc\""), Pair("content-length", "12"),
                          Pair("empty", ""), Pair("time", "a:b  c")));
}

TEST(HeaderLinesTest, OfSeveralAnswersTheLastCounts) {
  EXPECT_THAT(headers_of({"HTTP/1.1 100 Continue\r\n", "ETag: first\r\n", "\r\n", "HTTP/2 200 \r\n",
                          "etag: second\r\n", "\r\n"}),
              ElementsAre(Pair("etag", "second")));
}

TEST(HeaderLinesTest, TrailersAreNoHeaders) {
  EXPECT_THAT(headers_of({"HTTP/1.1 200 OK\r\n", "ETag: a\r\n", "\r\n", "ETag: b\r\n",
                          "X-Repo-Commit: c\r\n"}),
              ElementsAre(Pair("etag", "a")));
}

TEST(HeaderLinesTest, AFoldedLineGoesOn) {
  EXPECT_THAT(headers_of({"HTTP/1.1 200 OK\r\n", "  before any\r\n", "A: one\r\n", " two\r\n",
                          "\tthree\r\n", "\r\n"}),
              ElementsAre(Pair("a", "one two three")));
}

TEST(HeaderLinesTest, WhatIsNoHeaderIsLeftOut) {
  using std::string_view_literals::operator""sv;
  EXPECT_THAT(
      headers_of({"HTTP/1.1 200 OK\r\n", "no colon\r\n", ": no name\r\n", "a b: c\r\n", "a : b\r\n",
                  "a\0b: c\r\n"sv, "a: b\0c\r\n"sv, "a: b\rc\r\n", "a: \x7f\r\n", "\r\n"}),
      IsEmpty());
}

TEST(HeaderLinesTest, MoreThanAnybodyNeedsIsTooMuch) {
  HeaderLines reader;
  const auto line = "a: " + std::string(1000, 'b') + "\r\n";
  int taken = 0;
  while (taken < 1000 && reader.take(line)) ++taken;
  EXPECT_GT(taken, 200);
  EXPECT_LT(taken, 300);
}

}  // namespace
}  // namespace fovea::net
