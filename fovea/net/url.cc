#include "fovea/net/url.h"

#include <fmt/format.h>

#include <memory>

#include "fovea/core/text.h"
#include "fovea/net/curl_library.h"

namespace fovea::net {
namespace {

struct FreeUrl {
  void operator()(CURLU* url) const { curl_library().url_cleanup(url); }
};

std::string part_of(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_library().url_get(url, which, &text, flags) != CURLUE_OK) return {};
  std::string part = text;
  curl_library().free(text);
  return part;
}

}  // namespace

std::string origin_of(const std::string& url) {
  const std::unique_ptr<CURLU, FreeUrl> parsed(curl_library().url());
  if (!parsed || url.find('\0') != url.npos ||
      curl_library().url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK)
    return {};
  const auto scheme = part_of(parsed.get(), CURLUPART_SCHEME);
  const auto host = lowered(part_of(parsed.get(), CURLUPART_HOST));
  if ((scheme != "http" && scheme != "https") || host.empty()) return {};
  return scheme + "://" + host + ":" + part_of(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

bool is_on_this_machine(std::string_view host) {
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

std::string percent_encoded(std::string_view text, bool keeps_slashes) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = is_letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == '~';
    if (is_plain || (keeps_slashes && c == '/')) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace fovea::net
