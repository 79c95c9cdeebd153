#include "fovea/core/free_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "fovea/core/memory.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

TEST(FreeMemoryTest, IsSomeOfWhatThereIs) {
  const auto free = free_memory_bytes();
  EXPECT_GT(free, 0);
  EXPECT_LT(free, usable_memory_bytes());
}

// Files that the system can drop are free.
TEST(FreeMemoryTest, ACgroupHasWhatIsLeftBelowItsLimit) {
  const support::TempDir second;
  second.write("memory.max", std::string("1000\n"));
  second.write("memory.current", std::string("700\n"));
  EXPECT_EQ(detail::free_of_cgroup(second.path()), 300);
  second.write("memory.stat", std::string("anon 400\ninactive_file 200\n"));
  EXPECT_EQ(detail::free_of_cgroup(second.path()), 500);
  second.write("memory.max", std::string("max\n"));
  EXPECT_FALSE(detail::free_of_cgroup(second.path()).has_value());
  const support::TempDir first;
  first.write("memory.limit_in_bytes", std::string("1000\n"));
  first.write("memory.usage_in_bytes", std::string("1200\n"));
  EXPECT_EQ(detail::free_of_cgroup(first.path()), 0);
  first.write("memory.limit_in_bytes", std::string("9223372036854771712\n"));
  EXPECT_FALSE(detail::free_of_cgroup(first.path()).has_value());
  EXPECT_FALSE(detail::free_of_cgroup(first.path() + "/none").has_value());
}

// -> what `body` gives in a process of its own, which it may leave without room.
template <class Body>
bool holds_apart(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Asked of the system: a sanitizer's malloc ends the process where there is none.
bool is_given(int64_t bytes) {
  return mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

TEST(FreeMemoryTest, GrowthIsLimited) {
  constexpr int64_t kRoom = 64 << 20;
  EXPECT_TRUE(holds_apart([] {
    limit_growth(kRoom);
    if (!is_given(kRoom / 4) || is_given(2 * kRoom)) return false;
    const auto free = free_memory_bytes();
    return free > 0 && free <= kRoom;
  }));
  EXPECT_TRUE(holds_apart([] {  // a limit that is there is not raised
    limit_growth(kRoom);
    limit_growth(8 * kRoom);
    return !is_given(2 * kRoom);
  }));
}

}  // namespace
}  // namespace fovea
