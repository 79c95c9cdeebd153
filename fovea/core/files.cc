#include "fovea/core/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fovea/core/error.h"

namespace fovea {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

std::string read_file(const std::string& path, uint64_t max_bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail<DataError>("{}: cannot be opened: {}", path, std::strerror(errno));
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail<DataError>("{}: cannot be read: {}", path, std::strerror(errno));
    if (count == 0) return bytes;
    if (bytes.size() + static_cast<size_t>(count) > max_bytes) {
      fail<DataError>("{}: larger than {} bytes, the most that is read of such a file", path,
                      max_bytes);
    }
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace fovea
