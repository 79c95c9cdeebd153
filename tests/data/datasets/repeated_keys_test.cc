#include "fovea/data/datasets/repeated_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/file_list.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/wds.h"
#include "fovea/data_tools/pack/pack.h"
#include "tests/data/archive_support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::golden;
using ::testing::HasSubstr;
using testing::image_file;
using testing::message_of;
using testing::TempDir;

std::optional<RepeatedKey> repeated_in(const std::vector<std::string>& keys) {
  return find_repeated_key(static_cast<int64_t>(keys.size()), [&](int64_t i) -> std::string_view {
    return keys[static_cast<size_t>(i)];
  });
}

TEST(RepeatedKeysTest, FindsTheFirstAndCounts) {
  EXPECT_FALSE(repeated_in({}));
  EXPECT_FALSE(repeated_in({"a", "b", "A", ""}));
  const auto found = repeated_in({"x", "b", "c", "b", "x", "b", "d", "c"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, 1);
  EXPECT_EQ(found->second, 3);
  EXPECT_EQ(found->count, 4);
  std::vector<std::string> many;
  for (int i = 0; i < 100'000; ++i) many.push_back(fmt::format("train/{}.jpg", i));
  EXPECT_FALSE(repeated_in(many));
  many.push_back(many[77]);
  EXPECT_EQ(repeated_in(many)->first, 77);
  EXPECT_EQ(repeated_in(many)->second, 100'000);
}

// A list, a WebDataset and a packed set with one sample twice: named and counted, or as wanted.
TEST(RepeatedKeysTest, EachFormatNamesThem) {
  const TempDir dir;
  dir.write("a.jpg", golden("file.jpeg_420").bytes);
  dir.write("b.jpg", golden("file.jpeg_420").bytes);
  FileListConfig list{.path = dir.write("l.csv", "path,label\na.jpg,0\nb.jpg,1\na.jpg,1\n")};
  EXPECT_THAT(message_of([&] { build_file_list_dataset(list); }),
              AllOf(HasSubstr("l.csv: lines 2 and 4 both name a.jpg"),
                    HasSubstr("1 of 3 lines repeat an image"), HasSubstr("unique_paths: false")));
  list.unique_paths = false;
  const auto repeated = build_file_list_dataset(list);
  EXPECT_EQ(repeated->size(), 3);

  const auto tar = testing::tar_of({{"k.jpg", image_file()},
                                    {"k.cls", "0"},
                                    {"m.jpg", image_file()},
                                    {"m.cls", "0"},
                                    {"k.jpg", image_file()},
                                    {"k.cls", "1"}});
  WdsConfig wds{.path = {dir.write("t.tar", testing::to_bytes(tar))}};
  EXPECT_THAT(message_of([&] { build_wds_dataset(wds); }),
              AllOf(HasSubstr("two samples have the key \"k\": "), HasSubstr("t.tar[0]"),
                    HasSubstr("t.tar[2]"), HasSubstr("1 of 3 samples repeat a key")));
  wds.unique_keys = false;
  EXPECT_EQ(build_wds_dataset(wds)->size(), 3);

  PackOptions options;
  options.out = dir.path() + "/packed";
  options.shard_bytes = 1;  // a shard a sample
  pack_dataset(*repeated, options);
  PackedConfig packed{.path = options.out};
  EXPECT_THAT(message_of([&] { build_packed_dataset(packed); }),
              AllOf(HasSubstr("two samples have one name: "), HasSubstr("shard_000000.fvp[0] ("),
                    HasSubstr("shard_000002.fvp[0] ("), HasSubstr("1 of 3 repeat a name"),
                    HasSubstr("a.jpg"), HasSubstr("unique_names: false")));
  packed.unique_names = false;
  EXPECT_EQ(build_packed_dataset(packed)->size(), 3);
}

}  // namespace
}  // namespace fovea::data
