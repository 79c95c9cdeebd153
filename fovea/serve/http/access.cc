#include "fovea/serve/http/access.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/files/sha256.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

constexpr size_t kShortestKey = 16;
constexpr uint64_t kMaxKeyFileBytes = 64 << 10;

std::string read_key_file(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kMaxKeyFileBytes) {
    fail<ConfigError>("{}: {} bytes; expected keys, one a line", file.name(), file.size());
  }
  std::string text(file.size(), '\0');
  text.resize(file.read_some(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  return text;
}

// "http://host:80/x" -> "host:80"
std::string_view host_of_origin(std::string_view origin) {
  const auto start = origin.find("://");
  return start == std::string_view::npos ? origin : origin.substr(start + 3);
}

}  // namespace

Access::Access(const std::string& bearer_file, std::vector<std::string> open_paths)
    : open_paths_(std::move(open_paths)) {
  if (bearer_file.empty()) return;
  const std::string text = read_key_file(bearer_file);
  for (std::string_view rest = text; !rest.empty();) {
    auto line = take_line(rest);
    const auto key = take_word(line);
    if (key.empty()) continue;
    if (key.size() < kShortestKey || !take_word(line).empty()) {
      fail<ConfigError>(
          "{}: a key of {} characters; expected one key a line, of {} or more without blanks: "
          "openssl rand -hex 32 makes one",
          printable(bearer_file), key.size(), kShortestKey);
    }
    keys_.push_back(sha256_of(key));
  }
  if (keys_.empty()) {
    fail<ConfigError>("{}: no key; expected one a line: openssl rand -hex 32 makes one",
                      printable(bearer_file));
  }
}

bool Access::has_key(const HttpRequest& request) const {
  constexpr std::string_view kScheme = "bearer ";
  const auto* const given = find_header(request.headers, "authorization");
  if (given == nullptr || lowered(given->substr(0, kScheme.size())) != kScheme) return false;
  std::string_view rest = std::string_view(*given).substr(kScheme.size());
  const std::string digest = sha256_of(take_word(rest));
  bool fits = false;
  for (const auto& key : keys_) fits |= is_same_secret(digest, key);  // all: no time tells which
  return fits;
}

void Access::check(const HttpRequest& request) const {
  const auto* const origin = find_header(request.headers, "origin");
  const auto* const host = find_header(request.headers, "host");
  if (origin != nullptr && (host == nullptr || host_of_origin(*origin) != *host)) {
    fail_with(403, "a page of {} asks; expected one of this server's own",
              printable_start(*origin));
  }
  if (keys_.empty() || has_key(request)) return;
  if (std::find(open_paths_.begin(), open_paths_.end(), request.path) != open_paths_.end()) return;
  fail_with(401, "expected the header Authorization: Bearer KEY, with a key of this server");
}

}  // namespace fovea::serve
