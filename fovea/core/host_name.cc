#include "fovea/core/host_name.h"

#include <limits.h>
#include <unistd.h>

#include <array>

namespace fovea {

std::string host_name(const std::string& otherwise) {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : otherwise;
}

}  // namespace fovea
