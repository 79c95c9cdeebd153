#include "fovea/core/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"

namespace fovea {

bool is_there(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool is_folder(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string read_file(const std::string& path, uint64_t max_bytes) {
  constexpr uint64_t kLeastRoom = 1 << 12;
  const InputFile file(path);
  std::string bytes;
  uint64_t done = 0, most = file.size();
  // Until it ends, whatever its size says: it may grow, and files of /proc have none.
  for (uint64_t got = 0, room = 0; got == room; most = done) {
    if (most > max_bytes) break;
    room = std::max(file.size() + 1 - std::min(file.size(), done), kLeastRoom);
    bytes.resize(done + room);
    got = file.read_some(done, {reinterpret_cast<uint8_t*>(bytes.data()) + done, room});
    done += got;
  }
  if (most > max_bytes) {
    fail<DataError>("{}: larger than {} bytes, the most that is read of such a file", file.name(),
                    max_bytes);
  }
  bytes.resize(done);
  return bytes;
}

std::string read_start(const std::string& path, size_t bytes) {
  std::string start(bytes, '\0');
  const InputFile file(path);
  start.resize(file.read_some(0, {reinterpret_cast<uint8_t*>(start.data()), bytes}));
  return start;
}

}  // namespace fovea
