#include "fovea/core/free_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "fovea/core/error.h"

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

// What a text begins with, behind blanks.
std::optional<int64_t> number_at_begin(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> number_in(const std::filesystem::path& path) {
  return number_at_begin(text_of(path));
}

// Calls body(line) for each line of a text.
template <class Body>
void for_each_line(std::string_view text, const Body& body) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    body(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
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
  for_each_line(groups, [&](std::string_view line) {  // "0::/a/b", "9:memory:/a/b"
    const auto second = line.find(':', line.find(':') + 1);
    if (second == line.npos) return;
    if (line.starts_with("0::")) look("/sys/fs/cgroup", line.substr(second + 1));
    if (line.find(":memory:") != line.npos) look("/sys/fs/cgroup/memory", line.substr(second + 1));
  });
  return least;
}

}  // namespace

std::optional<int64_t> detail::number_behind(const std::filesystem::path& path,
                                             const std::string& key) {
  std::optional<int64_t> number;
  for_each_line(text_of(path), [&](std::string_view line) {
    const auto end = std::min(line.find_first_of(" \t"), line.size());
    if (!number && line.substr(0, end) == key) number = number_at_begin(line.substr(end));
  });
  return number;
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
