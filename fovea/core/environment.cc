#include "fovea/core/environment.h"

#include <cstdlib>

namespace fovea {

std::string environment_variable(const char* name, std::string_view otherwise) {
  const char* const value = std::getenv(name);
  return std::string(value == nullptr || *value == 0 ? otherwise : value);
}

}  // namespace fovea
