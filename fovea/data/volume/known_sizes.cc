#include "fovea/data/volume/known_sizes.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/core/parallel_for.h"
#include "fovea/data/volume/stored_volume.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/checksum.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "fovea sizes 1";
constexpr uint64_t kMaxListBytes = uint64_t{1} << 28;
constexpr int64_t kThreads = 8;                 // they wait for the disk most of the time
constexpr uint64_t kSettledNs = 2'000'000'000;  // clocks of file systems are coarser than ours

struct FoundState {
  FileState state;
  uint64_t changed = 0;  // the last time, in nanoseconds
};

std::optional<FoundState> state_of_entry(const std::string& path, bool* is_folder) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  *is_folder = S_ISDIR(status.st_mode);
  const uint64_t changed = static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                           static_cast<uint64_t>(status.st_mtim.tv_nsec);
  return FoundState{{static_cast<uint64_t>(status.st_size), changed}, changed};
}

// Nothing: it cannot be looked at; who opens it says why.
std::optional<FoundState> state_of(const std::string& path) {
  bool is_folder = false;
  auto found = state_of_entry(path, &is_folder);
  if (!found || !is_folder) return found;
  FoundState all{{}, found->changed};
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto file = state_of_entry(entry->path().string(), &is_folder);
    if (!file) return std::nullopt;
    all.state.bytes += file->state.bytes;
    // A sum, for a folder is listed in any order.
    all.state.stamp += checksum(fmt::format("{}/{}/{}", entry->path().filename().string(),
                                            file->state.bytes, file->state.stamp));
    all.changed = std::max(all.changed, file->changed);
  }
  if (error) return std::nullopt;
  return all;
}

bool is_settled(const FoundState& found) {
  struct timespec now {};
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t time =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  return found.changed + kSettledNs < time;
}

std::string list_path(const std::string& root) {
  return (fs::path(root) / kKnownSizesName).string();
}

KnownSizes load(const std::string& root) {
  const std::string path = list_path(root);
  if (!is_there(path)) return {};
  try {
    return parse_known_sizes(read_file(path, kMaxListBytes), printable(path));
  } catch (const DataError& error) {
    log_warning(fmt::format("{}; the sizes are read again", error.what()));
    return {};
  }
}

void save(const std::string& root, KnownSizes known) {
  std::erase_if(known,
                [&](const auto& entry) { return !is_there(fs::path(root) / entry.first.second); });
  try {
    write_file_atomic(list_path(root), format_known_sizes(known));
  } catch (const Error&) {  // a folder that is only read: every start reads the headers
  }
}

// Below `root`, or whole where it lies elsewhere; nothing: a name that no line can hold.
std::optional<std::string> key_of(const std::string& root, const std::string& path) {
  if (path.find('\n') != std::string::npos) return std::nullopt;
  std::string start = root;
  if (!start.ends_with('/')) start += '/';
  return path.starts_with(start) && path.size() > start.size() ? path.substr(start.size()) : path;
}

// The number before the next space; false: there is none.
template <class T>
bool take_number(std::string_view& line, T& value) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  const auto size = static_cast<size_t>(end - line.data());
  if (error != std::errc() || size >= line.size() || line[size] != ' ') return false;
  line.remove_prefix(size + 1);
  return true;
}

bool parse_line(std::string_view line, KnownSizes& known) {
  KnownSize entry;
  VolumeSize& size = entry.size;
  if (!take_number(line, size.depth) || !take_number(line, size.height) ||
      !take_number(line, size.width) || !take_number(line, entry.state.bytes) ||
      !take_number(line, entry.state.stamp)) {
    return false;
  }
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      checked_voxels(size.sides()) < 0) {
    return false;
  }
  known[{std::string(line.substr(0, space)), std::string(line.substr(space + 1))}] = entry;
  return true;
}

}  // namespace

KnownSizes parse_known_sizes(std::string_view text, const std::string& name) {
  KnownSizes known;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) fail<DataError>("{}:{}: the line is cut off", name, number);
    const auto line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1 ? line == kFirstLine : parse_line(line, known)) continue;
    fail<DataError>("{}:{}: expected {}", name, number,
                    number == 1 ? fmt::format("\"{}\"", kFirstLine) : "D H W BYTES STAMP HOW PATH");
  }
  return known;
}

std::string format_known_sizes(const KnownSizes& known) {
  std::string text = fmt::format("{}\n", kFirstLine);
  for (const auto& [key, entry] : known) {
    fmt::format_to(std::back_inserter(text), "{} {} {} {} {} {} {}\n", entry.size.depth,
                   entry.size.height, entry.size.width, entry.state.bytes, entry.state.stamp,
                   key.first, key.second);
  }
  return text;
}

std::vector<VolumeSize> sizes_of_files(const std::string& root, const std::string& known_as,
                                       const std::vector<std::string>& paths,
                                       const std::function<VolumeSize(size_t)>& read) {
  const auto count = static_cast<int64_t>(paths.size());
  const bool is_kept = !known_as.empty() && count >= kLeastKnownSizes;
  KnownSizes known = is_kept ? load(root) : KnownSizes();
  std::vector<VolumeSize> sizes(paths.size());
  std::vector<std::optional<FoundState>> news(paths.size());  // of those that were read
  parallel_for(count, count < kLeastKnownSizes ? 1 : kThreads, [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    // Before the file is read: one that changes meanwhile has another state the next time.
    const auto found = is_kept ? state_of(paths[i]) : std::nullopt;
    const auto key = key_of(root, paths[i]);
    if (found && key) {
      const auto entry = known.find({known_as, *key});
      if (entry != known.end() && entry->second.state == found->state) {
        sizes[i] = entry->second.size;
        return;
      }
    }
    sizes[i] = read(i);
    if (found && key && is_settled(*found)) news[i] = found;
  });
  bool is_new = false;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!news[i]) continue;
    known[{known_as, *key_of(root, paths[i])}] = {news[i]->state, sizes[i]};
    is_new = true;
  }
  if (is_new) save(root, std::move(known));
  return sizes;
}

}  // namespace fovea::data
