#include <algorithm>

#include "fovea/net/http.h"

namespace fovea::net {

std::string HttpReply::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? std::string() : found->second;
}

}  // namespace fovea::net
