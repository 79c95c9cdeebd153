#include "fovea/parallel/shared_memory/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::parallel {
namespace {

// Nobody can cut it off, which would be a signal for all that use it.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The whole file, for OFD locks: those of one process that opened it twice are two.
struct flock lock_of_all() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

uint64_t random_token() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

[[noreturn]] void fail_for(const char* what, int error) {
  fail("{}: {}", what, std::strerror(error));
}

}  // namespace

SharedFile::SharedFile(int file, size_t bytes) : file_(file), bytes_(bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(file_);
    fail_for("shared memory cannot be mapped", error);
  }
  data_ = static_cast<std::byte*>(data);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      bytes_(other.bytes_),
      data_(std::exchange(other.data_, nullptr)) {}

SharedFile::~SharedFile() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (file_ >= 0) close(file_);
}

SharedFile SharedFile::make(size_t bytes) {
  rlimit most{};  // past it comes a signal
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes) {
    fail("{} MiB of shared memory are more than a file may have (ulimit -f)", bytes >> 20);
  }
  const int file = memfd_create("fovea", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) fail_for("the system has no files in memory (memfd_create)", errno);
  int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  auto lock = lock_of_all();
  if (error == 0 &&
      (fcntl(file, F_ADD_SEALS, kSeals) != 0 || fcntl(file, F_OFD_SETLK, &lock) != 0)) {
    error = errno;
  }
  if (error != 0) {
    close(file);
    fail_for(fmt::format("{} MiB of shared memory are not to be had", bytes >> 20).c_str(), error);
  }
  SharedFile shared(file, bytes);
  const auto token = random_token();
  std::memcpy(shared.data_, &token, sizeof token);
  return shared;
}

SharedFile SharedFile::open(const SharedPlace& place, size_t bytes) {
  const auto path = fmt::format("/proc/{}/fd/{}", place.process, place.file);
  // What another process of that number has there may be anything.
  struct stat state {};
  if (stat(path.c_str(), &state) != 0) fail_for(path.c_str(), errno);
  const bool is_file = S_ISREG(state.st_mode) && state.st_size == static_cast<off_t>(bytes);
  const int file = is_file ? ::open(path.c_str(), O_RDWR | O_CLOEXEC) : -1;
  if (is_file && file < 0) fail_for(path.c_str(), errno);
  if (!is_file || fcntl(file, F_GET_SEALS) != kSeals) {
    if (file >= 0) close(file);
    fail("{} is not the shared memory of that rank", path);
  }
  SharedFile shared(file, bytes);
  uint64_t token = 0;
  std::memcpy(&token, shared.data_, sizeof token);
  if (token != place.token) fail("{} is the shared memory of something else", path);
  if (!shared.has_owner()) fail("{}: locks on shared memory are not seen here", path);
  return shared;
}

SharedPlace SharedFile::place() const {
  uint64_t token = 0;
  std::memcpy(&token, data_, sizeof token);
  return {.process = getpid(), .file = file_, .token = token};
}

bool SharedFile::has_owner() const {
  auto lock = lock_of_all();
  // A question that fails is no sign of an end.
  return fcntl(file_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace fovea::parallel
