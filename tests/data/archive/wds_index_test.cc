#include "fovea/data/archive/wds_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/archive_support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::golden;
using ::testing::HasSubstr;
using testing::memory;
using testing::message_of;
using testing::tar_of;

WdsIndex index_of(const testing::NamedBytes& files) {
  return build_wds_index(memory(tar_of(files)));
}

TEST(WdsIndexTest, EqualsWds2idxOnATarOfWebdataset) {
  const auto tar = golden("wds.tar", "data_packed").bytes;
  const auto expected = testing::to_text(golden("wds.index", "data_packed").bytes);
  const auto index = build_wds_index(MemorySource("x.tar", tar));
  EXPECT_EQ(format_wds_index(index), expected);
  const auto parsed = parse_wds_index(expected, "x.idx", tar.size());
  EXPECT_EQ(format_wds_index(parsed), expected);
  std::string keys;
  for (int64_t i = 0; i < parsed.size(); ++i) {
    keys += (i == 0 ? "" : "\n") + std::string(parsed.key(i));
  }
  EXPECT_EQ(keys, testing::to_text(golden("wds.keys", "data_packed").bytes));
}

TEST(WdsIndexTest, ReadsAndWritesTheOlderVersion) {
  const std::string text = "v1.1 2\njpg 512 3 cls 1536 1\njpg 2560 4\n";
  const auto index = parse_wds_index(text, "x.idx", 10240);
  ASSERT_EQ(index.size(), 2);
  EXPECT_EQ(index.key(1), "");
  EXPECT_EQ(index.parts[*index.find(0, "CLS")].offset, 1536u);
  EXPECT_FALSE(index.find(1, "cls"));
  EXPECT_EQ(format_wds_index(index), text);
  // A name with a space cannot stand in a v1.2 index.
  EXPECT_THAT(format_wds_index(index_of({{"a b.jpg", "x"}})), HasSubstr("v1.1 1\njpg 512 1\n"));
}

TEST(WdsIndexTest, TheKeyEndsAtTheFirstDotOfTheFileName) {
  const auto index = index_of({{"d.x/a.seg.png", "1"},
                               {"d.x/a.JPG", "2"},
                               {"README", "no dot"},
                               {".hidden.jpg", "no name"},
                               {"__meta__/x.json", "metadata"},
                               {"a.jpg", "3"}});
  ASSERT_EQ(index.size(), 2);
  EXPECT_EQ(index.key(0), "d.x/a");
  EXPECT_EQ(index.key(1), "a");
  EXPECT_TRUE(index.find(0, "seg.png"));
  EXPECT_TRUE(index.find(0, "jpg"));
}

TEST(WdsIndexTest, DoubledFilesAndKeysAreNamed) {
  EXPECT_THAT(message_of([] {
                index_of({{"a.jpg", "1"}, {"a.jpg", "2"}});
              }),
              AllOf(HasSubstr("x.tar"), HasSubstr("\"a.jpg\" stands twice")));
  const auto apart = index_of({{"a.jpg", "1"}, {"b.jpg", "2"}, {"a.cls", "0"}});
  EXPECT_EQ(apart.size(), 3);
  EXPECT_THAT(message_of([&] { check_wds_keys({apart}, {"x.tar"}); }),
              HasSubstr("two samples have the key \"a\": x.tar[0] and x.tar[2]"));
  const auto other = index_of({{"b.jpg", "1"}});
  EXPECT_THAT(
      message_of([&] {
        check_wds_keys({index_of({{"a.jpg", "1"}, {"b.jpg", "1"}}), other}, {"x.tar", "y.tar"});
      }),
      HasSubstr("\"b\": x.tar[1] and y.tar[0]"));
  EXPECT_NO_THROW(check_wds_keys({index_of({{"c.jpg", "1"}}), other}, {"x.tar", "y.tar"}));
  EXPECT_THAT(message_of([] { index_of({{"README", "x"}}); }), HasSubstr("no samples"));
}

TEST(WdsIndexTest, BadIndexFilesAreNamedWithTheLine) {
  const auto error = [](const std::string& text) {
    return message_of<DataError>([&] { parse_wds_index(text, "x.idx", 4096); });
  };
  EXPECT_THAT(error(""), HasSubstr("expected v1.1 or v1.2"));
  EXPECT_THAT(error("v1.0 1\n"), HasSubstr("starts with \"v1.0\""));
  EXPECT_THAT(error("v1.2 x\n"), HasSubstr("x.idx:1: expected the number of samples"));
  EXPECT_THAT(error("v1.2 0\n"), HasSubstr("x.idx:1: expected the number of samples"));
  EXPECT_THAT(error("v1.2 99999999999999999999\n"), HasSubstr("x.idx:1:"));
  EXPECT_THAT(error("v1.2 2\njpg 512 1 a.jpg\n"),
              HasSubstr("2 samples are announced, 1 are listed"));
  EXPECT_THAT(error("v1.2 1\njpg 512 1\n"), HasSubstr("x.idx:2: a name without key"));
  EXPECT_THAT(error("v1.1 1\njpg 512\n"), HasSubstr("x.idx:2: expected ENDING OFFSET SIZE"));
  EXPECT_THAT(error("v1.1 2\njpg 512 1\n\n"), HasSubstr("1 are listed"));
  EXPECT_THAT(error("v1.1 2\n\njpg 512 1\n"), HasSubstr("x.idx:2: a sample without files"));
  for (const std::string part : {"jpg 512 9999", "jpg 100 1", "jpg 0 1",
                                 "jpg 512 18446744073709551615", "jpg 18446744073709551104 600"}) {
    EXPECT_THAT(error("v1.1 1\n" + part + "\n"), HasSubstr("do not lie in the tar")) << part;
  }
}

}  // namespace
}  // namespace fovea::data
