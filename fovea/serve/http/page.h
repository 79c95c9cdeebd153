// The page at /: the models of a server, and a box that takes an image.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/serve/http_message.h"

namespace fovea::serve {

// Nothing: no part of the page.
std::optional<HttpResponse> page_response(const std::string& path);
std::vector<std::string> page_paths();

}  // namespace fovea::serve
