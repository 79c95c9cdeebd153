// Base64 (RFC 4648), as data: URLs have it.
#pragma once

#include <string>
#include <string_view>

namespace fovea {

std::string base64_encode(std::string_view bytes);
// Throws DataError for text that is not base64.
std::string base64_decode(std::string_view text);

}  // namespace fovea
