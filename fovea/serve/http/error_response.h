// What requests are told that cannot be answered, and what they say of themselves.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/serve/http_message.h"

namespace fovea::serve {

// {"error": message}, as all errors of the protocol are told; of 503 with Retry-After.
HttpResponse error_response(int status, const std::string& message);

// Of that name, in lower case; nullptr: there is none.
const std::string* find_header(const std::vector<std::pair<std::string, std::string>>& headers,
                               std::string_view name);

}  // namespace fovea::serve
