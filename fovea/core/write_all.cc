#include "fovea/core/write_all.h"

#include <unistd.h>

#include <cerrno>

namespace fovea {

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace fovea
