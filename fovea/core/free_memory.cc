#include "fovea/core/free_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>

#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/text.h"

namespace fovea {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The text of a file of the system; empty: there is none. Not by a stream: there are none before
// main, where this is asked, too.
std::string text_of(const std::filesystem::path& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char part[4096];
  for (ssize_t count = 0; (count = read(file, part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(count));
  }
  close(file);
  return text;
}

std::optional<int64_t> number_in(const std::filesystem::path& path) {
  return parse_number<int64_t>(trimmed(text_of(path)));
}

int64_t size_of_address_space() {
  return 1024 * detail::number_behind("/proc/self/status", "VmSize:").value_or(0);
}

// Of the groups that this process is in and of those around them, as far as they can be seen here.
int64_t free_of_cgroups() {
  namespace fs = std::filesystem;
  int64_t least = kNoLimit;
  const auto look = [&](const fs::path& root, std::string_view path) {
    auto folder = root / fs::path(path).relative_path();
    for (;; folder = folder.parent_path()) {
      if (const auto free = detail::free_of_cgroup(folder)) least = std::min(least, *free);
      if (folder == root || !folder.string().starts_with(root.string())) break;
    }
  };
  const auto groups = text_of("/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {
    const auto line = take_line(rest);  // "0::/a/b", "9:memory:/a/b"
    const auto second = line.find(':', line.find(':') + 1);
    if (second == line.npos) continue;
    if (line.starts_with("0::")) look("/sys/fs/cgroup", line.substr(second + 1));
    if (line.find(":memory:") != line.npos) look("/sys/fs/cgroup/memory", line.substr(second + 1));
  }
  return least;
}

}  // namespace

std::optional<int64_t> detail::number_behind(const std::filesystem::path& path,
                                             const std::string& key) {
  const auto text = text_of(path);
  for (std::string_view rest = text; !rest.empty();) {
    auto line = take_line(rest);
    if (take_word(line) != key) continue;
    if (const auto number = parse_number<int64_t>(take_word(line))) return number;
  }
  return {};
}

std::optional<int64_t> detail::free_of_cgroup(const std::filesystem::path& folder) {
  constexpr int64_t kUnlimited = int64_t{1} << 62;  // version 1 has a large number for none
  for (const auto& [limit_file, used_file, dropped_key] :
       {std::tuple{"memory.max", "memory.current", "inactive_file"},
        std::tuple{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}}) {
    const auto limit = number_in(folder / limit_file), used = number_in(folder / used_file);
    if (!limit || !used || *limit >= kUnlimited) continue;
    const auto dropped = detail::number_behind(folder / "memory.stat", dropped_key).value_or(0);
    return std::max<int64_t>(0, *limit - *used + dropped);
  }
  return {};
}

int64_t free_memory_bytes() {
  const auto available = detail::number_behind("/proc/meminfo", "MemAvailable:");
  int64_t free = available ? 1024 * *available : kNoLimit;
  free = std::min(free, free_of_cgroups());
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const auto left = static_cast<int64_t>(space.rlim_cur) - size_of_address_space();
    free = std::clamp<int64_t>(left, 0, free);
  }
  return free;
}

void limit_growth(int64_t bytes) {
  rlimit space{};
  getrlimit(RLIMIT_AS, &space);
  const auto wanted = static_cast<rlim_t>(size_of_address_space() + std::max<int64_t>(0, bytes));
  space.rlim_cur = std::min(space.rlim_cur, wanted);
  if (setrlimit(RLIMIT_AS, &space) == 0) return;
  fail("the memory of this process cannot be limited: {}", std::strerror(errno));
}

}  // namespace fovea
