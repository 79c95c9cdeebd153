#include "fovea/hub/file_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::hub {
namespace {

const std::string kCommit(40, 'c');
const std::string kSha(64, 'a');

TEST(FileHeadTest, OfASmallFileItsOwnEtagAndLengthCount) {
  const auto head = read_file_head({.status = 200,
                                    .headers = {{"x-repo-commit", kCommit},
                                                {"etag", "W/\"0123abcd\""},
                                                {"content-length", "12"}}},
                                   "https://h/a");
  EXPECT_EQ(head.commit, kCommit);
  EXPECT_EQ(head.etag, "0123abcd");
  EXPECT_EQ(head.size, 12u);
  EXPECT_EQ(head.url, "https://h/a");
  EXPECT_EQ(head.sha256(), "");
}

TEST(FileHeadTest, OfALargeFileThoseOfTheLinkedOneCount) {
  const auto head = read_file_head({.status = 302,
                                    .headers = {{"x-repo-commit", kCommit},
                                                {"etag", "\"of-the-redirect\""},
                                                {"x-linked-etag", "\"" + kSha + "\""},
                                                {"content-length", "7"},
                                                {"x-linked-size", "1234567890123"}},
                                    .redirect_url = "https://cdn/b"},
                                   "https://h/a");
  EXPECT_EQ(head.etag, kSha);
  EXPECT_EQ(head.sha256(), kSha);
  EXPECT_EQ(head.size, 1234567890123u);
  EXPECT_EQ(head.url, "https://cdn/b");
  // The length of a redirect is that of its own body.
  EXPECT_FALSE(
      read_file_head(
          {.status = 302,
           .headers = {{"x-repo-commit", kCommit}, {"etag", "\"e\""}, {"content-length", "7"}},
           .redirect_url = "https://cdn/b"},
          "https://h/a")
          .size);
}

TEST(FileHeadTest, NamesThatLeaveTheCacheAreRefused) {
  const auto read = [](const std::string& commit, const std::string& etag,
                       const std::string& size) {
    read_file_head(
        {.status = 200,
         .headers = {{"x-repo-commit", commit}, {"etag", etag}, {"content-length", size}}},
        "https://h/a");
  };
  read(kCommit, "\"a\"", "1");
  for (const auto* etag : {"", "\"\"", "\"../../x\"", "\"..\"", "\"a/b\"", "\".a\"", "\"a b\"",
                           "\"a\\b\"", "\"\xc3\xa4\"", "\"a\"b\""}) {
    EXPECT_THROW(read(kCommit, etag, "1"), DataError) << etag;
  }
  EXPECT_THROW(read(kCommit, std::string(200, 'a'), "1"), DataError);
  for (const auto* commit : {"", "main", "../../../../../../../../../../../../../../../../x"})
    EXPECT_THROW(read(commit, "\"a\"", "1"), DataError) << commit;
  for (const auto* size : {"-1", "1e3", "many", "99999999999999999999", "1 "})
    EXPECT_THROW(read(kCommit, "\"a\"", size), DataError) << size;
}

TEST(FileHeadTest, RelativeLocationsStayOnTheHub) {
  EXPECT_TRUE(is_relative_location("/a/b"));
  for (const auto* location : {"", "//evil/a", "/\\evil/a", "https://evil/a", "a/b"})
    EXPECT_FALSE(is_relative_location(location)) << location;
}

TEST(FileHeadTest, ContentRangesAreReadStrictly) {
  const auto range = read_content_range("bytes 100-199/200");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 100u);
  EXPECT_EQ(range->size, 200u);
  EXPECT_FALSE(read_content_range("bytes 0-1/*")->size);
  for (const auto* text : {"", "bytes", "bytes */200", "bytes 5-4/10", "bytes 0-10/10",
                           "items 0-1/2", "bytes -1/2", "bytes 0-1", "bytes 0-1/x", "bytes 0-1/"})
    EXPECT_FALSE(read_content_range(text)) << text;
}

}  // namespace
}  // namespace fovea::hub
