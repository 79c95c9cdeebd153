#include "fovea/core/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

// Of one process too: each object has a file of its own.
TEST(FileLockTest, IsOneAlonesOrSeveralThatShareIt) {
  const support::TempDir folder;
  const auto name = folder.path() + "/lock";
  FileLock mine(name, O_CREAT | O_RDWR), other(name, O_RDONLY);
  ASSERT_TRUE(mine.is_open() && other.is_open());
  {
    FileLock first(name, O_RDONLY);
    EXPECT_TRUE(first.try_lock());
    EXPECT_FALSE(mine.try_lock());
    EXPECT_EQ(errno, EWOULDBLOCK);
  }
  EXPECT_TRUE(mine.try_lock(/*is_shared=*/true));
  EXPECT_TRUE(other.try_lock(/*is_shared=*/true));
  EXPECT_FALSE(other.try_lock());
}

TEST(FileLockTest, OfWhatCannotBeOpenedThereIsNone) {
  const support::TempDir folder;
  FileLock missing(folder.path() + "/missing", O_RDONLY);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(missing.is_open());
  EXPECT_FALSE(missing.try_lock());
  EXPECT_FALSE(missing.lock());
  FileLock of_folder(folder.path(), O_RDONLY | O_DIRECTORY);
  EXPECT_TRUE(of_folder.lock());
}

}  // namespace
}  // namespace fovea
