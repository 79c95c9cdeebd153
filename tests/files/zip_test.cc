#include "fovea/files/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/arrays.h"
#include "fovea/files/byte_reader.h"
#include "fovea/files/unpack_limit.h"
#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::cut;
using testing::golden_file;
using testing::golden_values;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;
using testing::with_number;

constexpr uint64_t kLimit = 1 << 20;

// A zip file of members as given, field by field, so that tests can lie in any of them.
struct Member {
  std::string name;
  std::string data;
  uint16_t method = 0;
  uint16_t flags = 0;
  uint32_t bytes = 0;   // announced
  uint32_t offset = 0;  // announced, on top of the right one
  bool is_64 = false;   // sizes stand in the extra field
};

void put(std::vector<uint8_t>& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<uint8_t>(i < 8 ? value >> (8 * i) : 0));
}
void put(std::vector<uint8_t>& out, const std::string& text) {
  out.insert(out.end(), text.begin(), text.end());
}

std::vector<uint8_t> zip_of(const std::vector<Member>& members) {
  std::vector<uint8_t> out, directory;
  for (const Member& member : members) {
    const auto offset = static_cast<uint32_t>(out.size()) + member.offset;
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(member.data.data()),
                           static_cast<unsigned>(member.data.size()));
    put(out, 0x04034B50, 4);
    put(out, 20, 2);
    put(out, member.flags, 2);
    put(out, member.method, 2);
    put(out, 0, 4);
    put(out, crc, 4);
    put(out, member.data.size(), 4);
    put(out, member.bytes, 4);
    put(out, member.name.size(), 2);
    put(out, 0, 2);
    put(out, member.name);
    put(out, member.data);
    put(directory, 0x02014B50, 4);
    put(directory, 20, 2);
    put(directory, 20, 2);
    put(directory, member.flags, 2);
    put(directory, member.method, 2);
    put(directory, 0, 4);
    put(directory, crc, 4);
    put(directory, member.is_64 ? 0xFFFFFFFF : member.data.size(), 4);
    put(directory, member.is_64 ? 0xFFFFFFFF : member.bytes, 4);
    put(directory, member.name.size(), 2);
    put(directory, member.is_64 ? 24 : 0, 2);
    put(directory, 0, 10);
    put(directory, offset, 4);
    put(directory, member.name);
    if (!member.is_64) continue;
    put(directory, 0x7777, 2);  // another field first
    put(directory, 0, 2);
    put(directory, 1, 2);
    put(directory, 16, 2);
    put(directory, member.bytes, 8);
    put(directory, member.data.size(), 8);
  }
  const size_t start = out.size();
  out.insert(out.end(), directory.begin(), directory.end());
  put(out, 0x06054B50, 4);
  put(out, 0, 4);
  put(out, members.size(), 2);
  put(out, members.size(), 2);
  put(out, directory.size(), 4);
  put(out, start, 4);
  put(out, 0, 2);
  return out;
}

Member member(const std::string& name, const std::string& data = "abc") {
  return {.name = name, .data = data, .bytes = static_cast<uint32_t>(data.size())};
}

class ZipTest : public ::testing::Test {
 protected:
  std::string error_of(const std::vector<uint8_t>& bytes) {
    return message_of([&] {
      const ZipFile file(dir_.write("a.npz", bytes));
      for (const auto& member : file.members()) file.read(member, kLimit);
    });
  }
  TempDir dir_;
};

TEST_F(ZipTest, ReadsWhatNumPyWrites) {
  for (const char* name : {"stored", "deflated"}) {
    const ZipFile file(dir_.write("a.npz", golden_file(fmt::format("zip.{}.npz", name))));
    ASSERT_EQ(file.members().size(), 3u);
    const auto array = read_npz_array(file, "images", kDefaultUnpackedBytes);
    EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 2, 3, 4, 5}));
    std::vector<float> values(array.bytes.size() / sizeof(float));
    std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
    EXPECT_EQ(values, golden_values<float>("values.npz"));
    EXPECT_EQ(labels_of(read_npz_array(file, "labels", kDefaultUnpackedBytes)),
              (std::vector<int64_t>{1, 0}));
    EXPECT_THAT(message_of([&] { read_npz_array(file, "pixels", kDefaultUnpackedBytes); }),
                HasSubstr("no array \"pixels\"; there are images, labels, masks"));
  }
}

TEST_F(ZipTest, ReadsOwnArchives) {
  const ZipFile file(dir_.write("a.npz", zip_of({member("a/b.npy"), member("c", "")})));
  EXPECT_EQ(file.read(*file.find("a/b.npy"), 3), "abc");
  EXPECT_EQ(file.read(*file.find("c"), 3), "");
  EXPECT_EQ(file.find("d"), nullptr);
  EXPECT_THAT(message_of([&] { file.read(*file.find("a/b.npy"), 2); }),
              HasSubstr("a.npz:a/b.npy: 3 bytes, more than the 2"));
}

// What archives of more than 65,535 members or 4 GiB have at their end.
TEST_F(ZipTest, ReadsZip64) {
  auto large = member("a");
  large.is_64 = true;
  auto bytes = zip_of({large});
  const auto field = [&](size_t at) {
    return load_number<uint32_t>(&bytes[at], std::endian::little);
  };
  const size_t end = bytes.size() - 22;
  const uint64_t directory_bytes = field(end + 12), directory = field(end + 16);
  std::vector<uint8_t> records;
  put(records, 0x06064B50, 4);
  put(records, 44, 8);
  put(records, 45, 2);
  put(records, 45, 2);
  put(records, 0, 8);
  put(records, 1, 8);
  put(records, 1, 8);
  put(records, directory_bytes, 8);
  put(records, directory, 8);
  put(records, 0x07064B50, 4);
  put(records, 0, 4);
  put(records, end, 8);
  put(records, 1, 4);
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(end) + 8, bytes.end() - 2, uint8_t{0xFF});
  bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(end), records.begin(), records.end());
  const ZipFile file(dir_.write("a.npz", bytes));
  ASSERT_EQ(file.members().size(), 1u);
  EXPECT_EQ(file.read(file.members()[0], 3), "abc");
  bytes[end] = 'x';
  EXPECT_THAT(error_of(bytes), HasSubstr("zip64 end record is damaged"));
}

TEST_F(ZipTest, Truncated) {
  const auto good = golden_file("zip.stored.npz");
  EXPECT_THAT(error_of({}), HasSubstr("not a zip archive, or truncated"));
  EXPECT_THAT(error_of(cut(good, 1)), HasSubstr("not a zip archive, or truncated"));
  auto headless = good;
  headless.erase(headless.begin(), headless.begin() + 100);
  EXPECT_THAT(error_of(headless), HasSubstr("is damaged or has bytes before it"));
}

// One flipped bit anywhere is an error or does not matter; in the data of a member it is seen.
TEST_F(ZipTest, FlippedBitsAreSeen) {
  const auto good = golden_file("zip.deflated.npz");
  for (size_t i = 100; i < 200; i += 7) {
    auto bytes = good;
    bytes[i] ^= 4;
    EXPECT_NE(error_of(bytes), "") << i;
  }
}

TEST_F(ZipTest, NamesThatLeadElsewhere) {
  EXPECT_THAT(error_of(zip_of({member("../a")})), HasSubstr("a.npz:../a: \"..\" in its path"));
  EXPECT_THAT(error_of(zip_of({member("a/../../b")})), HasSubstr("\"..\" in its path"));
  EXPECT_THAT(error_of(zip_of({member("/etc/a")})), HasSubstr("an absolute path"));
  EXPECT_THAT(error_of(zip_of({member("a\\b")})), HasSubstr("a backslash"));
  EXPECT_THAT(error_of(zip_of({member("a\x1b")})), HasSubstr("a.npz:a\\x1b: a control character"));
  EXPECT_THAT(error_of(zip_of({member("")})), HasSubstr("an empty name"));
  EXPECT_THAT(error_of(zip_of({member("a"), member("a")})), HasSubstr("stands there twice"));
}

// The members of NumPy's deflated file, read with a limit of a byte: random numbers are packed by
// less than 64 times, so they are read; only blank ones are too much.
TEST_F(ZipTest, ArraysThatUnpackToTooMuch) {
  const ZipFile good(dir_.write("good.npz", golden_file("zip.deflated.npz")));
  EXPECT_FALSE(read_npz_array(good, "images", 1).bytes.empty());
  const ZipFile blank(
      dir_.write("blank.npz", testing::golden("file.npz_blank", "data_checksums").bytes));
  EXPECT_THAT(message_of([&] { read_npz_array(blank, "images", 100'000); }),
              HasSubstr("raise max_unpacked_bytes"));
  EXPECT_EQ(read_npz_array(blank, "images", 200'128).bytes.size(), 200u * 1000);
}

TEST_F(ZipTest, BombsAndLies) {
  auto bomb = member("a");
  bomb.method = 8;
  bomb.bytes = 1u << 30;
  EXPECT_THAT(error_of(zip_of({bomb})), HasSubstr("1073741824 bytes out of 3, which cannot be"));
  auto wrong = member("a");
  wrong.bytes = 4;
  EXPECT_THAT(error_of(zip_of({wrong})), HasSubstr("4 bytes out of 3"));
  auto encrypted = member("a");
  encrypted.flags = 1;
  EXPECT_THAT(error_of(zip_of({encrypted})), HasSubstr("encrypted"));
  auto method = member("a");
  method.method = 14;
  EXPECT_THAT(error_of(zip_of({method})), HasSubstr("compression 14"));
  auto second = member("b");
  second.offset = static_cast<uint32_t>(-34);  // on the first one
  EXPECT_THAT(error_of(zip_of({member("a"), second})), HasSubstr("overlaps what follows it"));
  second.offset = 1000;
  EXPECT_THAT(error_of(zip_of({member("a"), second})), HasSubstr("overlaps what follows it"));
  auto garbage = member("a", "not deflate");
  garbage.method = 8;
  EXPECT_THAT(error_of(zip_of({garbage})), HasSubstr("its deflate stream is damaged"));
}

TEST_F(ZipTest, WrongChecksumAndHeaders) {
  auto bytes = zip_of({member("a")});
  bytes[31] = 'x';  // the first byte of the data
  EXPECT_THAT(error_of(bytes), HasSubstr("checksum"));
  bytes = zip_of({member("a")});
  bytes[30] = 'b';  // the name in the member's own header
  EXPECT_THAT(error_of(bytes), HasSubstr("its header and the directory differ"));
  bytes = zip_of({member("a")});
  bytes[0] = 'x';
  EXPECT_THAT(error_of(bytes), HasSubstr("its header is damaged"));
  const auto end = bytes.size() - 22;
  EXPECT_THAT(error_of(with_number(zip_of({member("a")}), end + 4, uint16_t{1})),
              HasSubstr("several disks"));
  EXPECT_THAT(error_of(with_number(zip_of({member("a")}), end + 16, uint32_t{7})),
              HasSubstr("is damaged"));
}

}  // namespace
}  // namespace fovea::data
