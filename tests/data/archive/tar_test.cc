#include "fovea/data/archive/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/archive_support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::golden;
using ::testing::HasSubstr;
using testing::image_file;
using testing::memory;
using testing::message_of;
using testing::sign_tar_header;
using testing::tar_of;
using testing::TempDir;

std::vector<TarEntry> entries_of(const std::string& bytes) {
  const auto source = memory(bytes);
  TarReader reader(source);
  std::vector<TarEntry> entries;
  while (auto entry = reader.next()) entries.push_back(*entry);
  EXPECT_FALSE(reader.next());
  return entries;
}

std::string error_of(const std::string& bytes) {
  return message_of<DataError>([&] { entries_of(bytes); });
}

std::string golden_text(const std::string& name) {
  return testing::to_text(golden(name, "data_packed").bytes);
}

TEST(TarTest, ReadsWhatPythonWritesInThreeFormats) {
  const std::vector<std::string> names = {
      "short.txt", "folder/" + std::string(120, 'x') + ".jpg",
      std::string(60, 'a') + "/" + std::string(60, 'b') + "/c.txt"};
  for (const std::string format : {"pax", "gnu", "ustar"}) {
    const auto bytes = golden_text("tar." + format);
    const auto entries = entries_of(bytes);
    const bool has_long = format != "ustar";
    ASSERT_EQ(entries.size(), has_long ? 5u : 4u) << format;
    size_t e = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      if (i == 1 && !has_long) continue;
      EXPECT_EQ(entries[e].name, names[i]);
      EXPECT_EQ(entries[e].kind, TarKind::kFile);
      ASSERT_EQ(entries[e].size, 10 * i + 1);
      EXPECT_EQ(bytes.substr(entries[e].offset, entries[e].size),
                std::string(entries[e].size, static_cast<char>('A' + i)));
      ++e;
    }
    EXPECT_EQ(entries[e].kind, TarKind::kFolder);
    EXPECT_EQ(entries[e + 1].kind, TarKind::kLink);
    const auto source = memory(bytes);
    TarReader reader(source);
    int64_t files = 0;
    while (reader.next_file()) ++files;
    EXPECT_EQ(files, static_cast<int64_t>(e));
    EXPECT_EQ(reader.num_skipped(), 1);
    EXPECT_EQ(reader.first_skipped(), "link");
  }
}

TEST(TarTest, WritesAndReadsBack) {
  const std::string long_name = std::string(200, 'n') + ".png";
  const auto tar = tar_of({{"a.txt", "hello"}, {long_name, std::string(512, 'x')}, {"empty", ""}});
  EXPECT_EQ(tar.size() % kTarBlock, 0u);
  const auto entries = entries_of(tar);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(tar.substr(entries[0].offset, entries[0].size), "hello");
  EXPECT_EQ(entries[1].name, long_name);
  EXPECT_EQ(tar.substr(entries[1].offset, entries[1].size), std::string(512, 'x'));
  EXPECT_EQ(entries[2].size, 0u);
  const auto block = testing::to_bytes(tar.substr(0, kTarBlock));
  EXPECT_TRUE(is_tar_header_of(block, 5));
  EXPECT_FALSE(is_tar_header_of(block, 6));
  EXPECT_FALSE(is_tar_header_of(testing::to_bytes(std::string(kTarBlock, 'x')), 5));
}

TEST(TarTest, ATruncatedArchiveIsNamed) {
  const auto tar = tar_of({{"a.txt", std::string(600, 'a')}, {"b.txt", "b"}});
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("x.tar"), HasSubstr("truncated")));
  EXPECT_THAT(error_of(tar.substr(0, 100)), HasSubstr("truncated"));
  EXPECT_THAT(error_of(tar.substr(0, 1000)),
              HasSubstr("\"a.txt\" has 600 bytes, but only 488 follow: the archive is truncated"));
  // Also where it ends between two files.
  EXPECT_THAT(error_of(tar.substr(0, 1536)), HasSubstr("byte 1536: the archive has no end"));
  EXPECT_EQ(entries_of(tar.substr(0, tar.size() - kTarBlock)).size(), 2u);  // one block of zeros
}

TEST(TarTest, NamesThatLeadOutAreRefused) {
  for (const std::string name : {"../a.txt", "a/../../b", "/etc/passwd", "a/..", ".."}) {
    EXPECT_THAT(error_of(tar_of({{name, "x"}})),
                AllOf(HasSubstr(name), HasSubstr("leads out of the archive's folder")));
  }
  EXPECT_EQ(entries_of(tar_of({{"./a//b/./c.txt", "x"}}))[0].name, "a/b/c.txt");
  EXPECT_EQ(entries_of(tar_of({{"..a/b..", "x"}}))[0].name, "..a/b..");
}

TEST(TarTest, DamageIsFound) {
  auto tar = tar_of({{"a.txt", "hello"}, {"b.txt", "b"}});
  auto changed = tar;
  changed[1024] ^= 1;
  EXPECT_THAT(error_of(changed), HasSubstr("byte 1024: no tar header: its checksum is wrong"));
  EXPECT_THAT(error_of(std::string(1024, 'x')), HasSubstr("not a tar archive"));
  changed = tar;
  changed[124] = 'z';
  sign_tar_header(changed);
  EXPECT_THAT(error_of(changed), HasSubstr("the size of an entry is no number"));
  changed = tar;
  for (size_t i = 124; i < 136; ++i) changed[i] = static_cast<char>(0xFF);  // -1 in base 256
  sign_tar_header(changed);
  EXPECT_THAT(error_of(changed), HasSubstr("no number"));
  changed[124] = static_cast<char>(0x80);
  sign_tar_header(changed);
  EXPECT_THAT(error_of(changed), HasSubstr("no number"));  // over 64 bits
  changed = tar;
  changed[156] = 'S';
  sign_tar_header(changed);
  EXPECT_THAT(error_of(changed), HasSubstr("\"a.txt\" is an entry of type S"));
  EXPECT_THAT(error_of(tar + tar), HasSubstr("archives that are joined are not read"));
}

TEST(TarTest, BadPaxRecordsAreRefused) {
  const auto with = [](const std::string& records) {
    std::string tar = tar_header("pax", records.size()) + records + tar_padding(records.size());
    tar[156] = 'x';
    sign_tar_header(tar);
    return tar + tar_of({{"a.txt", "x"}});
  };
  EXPECT_EQ(entries_of(with("12 path=b/c\n"))[0].name, "b/c");
  for (const std::string records : {"12 path=b/cc", "99 path=b\n", "x", "5 a=\nb", "3 =\n",
                                    "0 a=b\n", "8 abcde\n", "18446744073709551616 a=b\n"}) {
    EXPECT_THAT(error_of(with(records)), HasSubstr("pax record")) << records;
  }
  EXPECT_THAT(error_of(with("10 size=x\n")), HasSubstr("pax size \"x\""));
  EXPECT_THAT(error_of(with("22 GNU.sparse.major=1\n")), HasSubstr("sparse"));
  EXPECT_THAT(error_of(with("13 path=/etc\n")), HasSubstr("leads out"));
  EXPECT_THAT(error_of(with("28 size=9223372036854775807\n")), HasSubstr("truncated"));
}

TEST(TarTest, APartOfAFileIsASource) {
  const TempDir dir;
  const auto inner = tar_of({{"a.txt", "inner"}});
  const auto path = dir.write("outer.tar", testing::to_bytes(tar_of({{"n.tar", inner}})));
  const FileSource file(path);
  TarReader outer(file);
  const auto entry = outer.next_file();
  ASSERT_TRUE(entry);
  const PartSource part(file, "outer.tar/n.tar", entry->offset, entry->size);
  TarReader reader(part);
  const auto found = reader.next_file();
  ASSERT_TRUE(found);
  std::vector<uint8_t> bytes(found->size);
  part.read(found->offset, bytes);
  EXPECT_EQ(testing::to_text(bytes), "inner");
  EXPECT_THAT(message_of([&] { part.read(part.size() - 2, bytes); }), HasSubstr("truncated"));
  EXPECT_THAT(message_of([&] { PartSource(file, "p", file.size(), 1); }), HasSubstr("truncated"));
  EXPECT_THAT(message_of([&] { FileSource(dir.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(message_of([&] { FileSource(dir.path() + "/none"); }), HasSubstr("cannot open"));
}

TEST(TarTest, APoolKeepsFewFilesOpen) {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int i = 0; i < 5; ++i) {
    paths.push_back(dir.write(std::to_string(i), std::string(1, static_cast<char>('0' + i))));
  }
  const FilePool pool(paths, 2);
  const auto kept = pool.open(0);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 5; ++i) {
      uint8_t byte = 0;
      pool.open(i)->read(0, {&byte, 1});
      EXPECT_EQ(byte, '0' + i);
    }
  }
  uint8_t byte = 0;
  kept->read(0, {&byte, 1});  // still open: it is held
  EXPECT_EQ(byte, '0');
}

}  // namespace
}  // namespace fovea::data
