#include "fovea/files/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/arrays.h"
#include "fovea/files/byte_reader.h"
#include "fovea/files/unpack_limit.h"
#include "tests/data/golden_files.h"
#include "tests/support/zip_of.h"

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

using support::put;
using support::zip_of;
using Member = support::RawZipMember;

Member member(const std::string& name, const std::string& data = "abc") {
  return support::zip_member(name, data);
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

// As in torch's Distributed Checkpoints.
TEST_F(ZipTest, ReadsAnArchiveThatIsAPartOfAFile) {
  const auto archive = zip_of({member("a", "first")});
  std::vector<uint8_t> bytes(6, 'b');
  bytes.insert(bytes.end(), archive.begin(), archive.end());
  bytes.insert(bytes.end(), 7, 'e');
  const auto path = dir_.write("a.bin", bytes);
  const ZipFile file(path, 6, archive.size());
  EXPECT_EQ(file.read(*file.find("a"), 100), "first");
  EXPECT_THROW(ZipFile(path, 7, archive.size()), DataError);
  EXPECT_THROW(ZipFile(path, 6, archive.size() + 7), DataError);
  EXPECT_THROW(ZipFile(path, 1 << 20, 1), DataError);
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
