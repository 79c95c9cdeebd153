#include "fovea/files/zip_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/zip.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

class ZipWriterTest : public testing::Test {
 protected:
  void write(const std::vector<std::pair<std::string, std::string>>& members, uint64_t alignment) {
    AtomicFile file(path_);
    ZipWriter zip(file, alignment);
    for (const auto& [name, text] : members) zip.add(name, std::as_bytes(std::span(text)));
    zip.finish();
    file.commit();
  }
  support::TempDir folder_;
  std::string path_ = folder_.file("a.zip");
};

TEST_F(ZipWriterTest, IsReadBack) {
  write({{"a", "first"}, {"b/c", ""}, {"d", std::string(1000, 'x')}}, 1);
  const ZipFile zip(path_);
  ASSERT_EQ(zip.members().size(), 3U);
  EXPECT_EQ(zip.read(*zip.find("a"), 100), "first");
  EXPECT_EQ(zip.read(*zip.find("b/c"), 100), "");
  EXPECT_EQ(zip.read(*zip.find("d"), 1000), std::string(1000, 'x'));
}

TEST_F(ZipWriterTest, AlignsMembers) {
  write({{"a", "first!"}, {"bb", "second!"}, {"ccc", "third!"}}, 64);
  const auto bytes = read_file(path_, 1 << 20);
  for (const auto* text : {"first!", "second!", "third!"}) EXPECT_EQ(bytes.find(text) % 64, 0U);
  const ZipFile zip(path_);
  EXPECT_EQ(zip.read(*zip.find("ccc"), 100), "third!");
}

TEST_F(ZipWriterTest, KeepsManyMembersApart) {
  std::vector<std::pair<std::string, std::string>> members;
  for (int i = 0; i < 300; ++i) members.emplace_back("m" + std::to_string(i), std::to_string(i));
  write(members, 1);
  EXPECT_EQ(ZipFile(path_).members().size(), 300U);
}

TEST_F(ZipWriterTest, RefusesANameTwice) {
  AtomicFile file(path_);
  ZipWriter zip(file);
  zip.add("a", {});
  EXPECT_THROW(zip.add("a", {}), Error);
  EXPECT_THROW(zip.add("", {}), Error);
}

// An archive within a file, as in torch's Distributed Checkpoints.
TEST_F(ZipWriterTest, IsReadAsAPartOfAFile) {
  write({{"a", "first"}}, 1);
  const auto bytes = read_file(path_, 1 << 20);
  std::ofstream(path_, std::ios::binary) << "before" << bytes << "behind";
  const ZipFile zip(path_, 6, bytes.size());
  EXPECT_EQ(zip.read(*zip.find("a"), 100), "first");
  EXPECT_THROW(ZipFile(path_, 7, bytes.size()), DataError);
  EXPECT_THROW(ZipFile(path_, 6, bytes.size() + 7), DataError);
  EXPECT_THROW(ZipFile(path_, 1 << 20, 1), DataError);
}

}  // namespace
}  // namespace fovea
