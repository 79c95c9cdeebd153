// An answer's first lines.
#pragma once

#include <string>
#include <string_view>

#include "fovea/serve/http_message.h"

namespace fovea::serve {

// From "HTTP/1.1 200 OK" to the blank line. Line ends within a header's value become blanks: no
// name of a file or model adds a header of its own.
std::string response_head(const HttpResponse& response, bool keeps_alive, std::string_view id);

}  // namespace fovea::serve
