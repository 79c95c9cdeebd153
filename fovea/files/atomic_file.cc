#include "fovea/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/core/write_all.h"
#include "fovea/core/write_error.h"

namespace fovea {

void AtomicFile::fail_with_errno(const char* what) const {
  fail<WriteError>("{}: cannot be {}: {}; free space or choose another folder", path_, what,
                   std::strerror(errno));
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".XXXXXX") {
  struct stat there {};
  // The new file would take the place of /dev/null.
  if (stat(path_.c_str(), &there) == 0 && (S_ISCHR(there.st_mode) || S_ISBLK(there.st_mode))) {
    check_output_file(path_);
  }
  file_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (file_ < 0) fail_with_errno("made");
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(file_, 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (!write_all(file_, bytes)) fail_with_errno("written");
}

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("written");
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
  if (fsync(file_) != 0) fail_with_errno("brought to the disk");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno("renamed into place");
  close(file_);
  file_ = -1;
  const auto parent = std::filesystem::absolute(path_).parent_path().string();
  const int folder = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

void write_file_atomic(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace fovea
