#include "fovea/serve/http/error_response.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/core/json.h"

namespace fovea::serve {

HttpResponse error_response(int status, const std::string& message) {
  HttpResponse response{.status = status,
                        .headers = {{"Content-Type", "application/json"}},
                        .body = json_text(nlohmann::json{{"error", message}})};
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

const std::string* find_header(const std::vector<std::pair<std::string, std::string>>& headers,
                               std::string_view name) {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? nullptr : &found->second;
}

}  // namespace fovea::serve
