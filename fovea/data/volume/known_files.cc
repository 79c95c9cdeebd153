#include "fovea/data/volume/known_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>

#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/checksum.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxListBytes = uint64_t{1} << 28;
constexpr uint64_t kSettledNs = 2'000'000'000;  // clocks of file systems are coarser than ours
constexpr int kLockTries = 50;
constexpr std::chrono::milliseconds kLockPause(20);

std::optional<FoundState> state_of_entry(const std::string& path, bool* is_folder) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  *is_folder = S_ISDIR(status.st_mode);
  const uint64_t changed = static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                           static_cast<uint64_t>(status.st_mtim.tv_nsec);
  return FoundState{{static_cast<uint64_t>(status.st_size), changed}, changed};
}

std::string last_line(std::string_view text) {
  return fmt::format("checksum {:016x}\n", checksum(text));
}

}  // namespace

bool FoundState::is_settled() const {
  struct timespec now {};
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t time =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  return changed + kSettledNs < time;
}

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

std::optional<KnownKey> known_key(const std::string& known_as, const std::string& root,
                                  const std::string& path) {
  if (path.find('\n') != std::string::npos) return std::nullopt;
  std::string start = root;
  if (!start.ends_with('/')) start += '/';
  const bool is_below = path.starts_with(start) && path.size() > start.size();
  return KnownKey(known_as, is_below ? path.substr(start.size()) : path);
}

std::string load_known_text(const std::string& path) {
  if (!is_there(path)) return {};
  std::string text = read_file(path, kMaxListBytes);
  const size_t size = last_line("").size();
  const auto list = std::string_view(text).substr(0, text.size() - std::min(size, text.size()));
  if (std::string_view(text).substr(list.size()) != last_line(list))
    fail<DataError>("{}: its checksum is wrong", printable(path));
  text.resize(list.size());
  return text;
}

bool save_known_text(const std::string& path, std::string text) {
  text += last_line(text);
  try {
    write_file_atomic(path, text);
    return true;
  } catch (const Error&) {  // every start looks at the files then
    return false;
  }
}

bool is_known_there(const std::string& root, const KnownKey& key) {
  return is_there(fs::path(root) / key.second);
}

std::string known_path(const std::string& root, std::string_view name) {
  return (fs::path(root) / name).string();
}

void log_damaged_list(const DataError& error) {
  log_warning(fmt::format("{}; what it held is found anew", error.what()));
}

KnownListLock::KnownListLock(const std::string& root) : folder_(root, O_RDONLY | O_DIRECTORY) {
  for (int i = 0; folder_.is_open() && i < kLockTries; ++i) {
    if (folder_.try_lock() || errno != EWOULDBLOCK) return;
    std::this_thread::sleep_for(kLockPause);
  }
}

}  // namespace fovea::data
