#include "fovea/core/error.h"

namespace fovea::detail {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(fmt::format("{} (check `{}` failed at {}:{})", message, condition, file, line));
}

}  // namespace fovea::detail
