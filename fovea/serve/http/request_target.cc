#include "fovea/serve/http/request_target.h"

#include <charconv>

#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

// Of "http://host/v2": "/v2".
std::string_view without_origin(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (lowered(target.substr(0, scheme.size())) != scheme) continue;
    const auto slash = target.find('/', scheme.size());
    return slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target;
}

char decoded_byte(std::string_view digits, std::string_view target) {
  uint8_t byte = 0;
  const auto end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, byte, 16);
  if (digits.size() != 2 || result.ec != std::errc() || result.ptr != end || byte == 0) {
    fail_with(400, "{}: found %{}; expected % and two hexadecimal digits, not 00",
              printable_start(target), printable_start(digits));
  }
  return static_cast<char>(byte);
}

}  // namespace

std::string path_of_target(std::string_view target) {
  if (target == "*") return std::string(target);
  std::string_view rest = without_origin(target);
  rest = rest.substr(0, rest.find_first_of("?#"));
  if (!rest.starts_with('/')) {
    fail_with(400, "the request is for {}; expected a path such as /v2", printable_start(target));
  }
  std::string path;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] != '%') {
      path += rest[i];
      continue;
    }
    path += decoded_byte(rest.substr(i + 1, 2), target);
    i += 2;
  }
  return path;
}

}  // namespace fovea::serve
