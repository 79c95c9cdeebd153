#include "fovea/hub/settings.h"

#include <algorithm>
#include <initializer_list>

#include "fovea/core/environment.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"

namespace fovea::hub {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTokenBytes = 4096;

// The first of these variables that is set to something.
std::string variable(std::initializer_list<const char*> names) {
  for (const auto* name : names) {
    if (auto value = environment_variable(name); !value.empty()) return value;
  }
  return {};
}

bool is_on(const std::string& value) {
  const auto word = lowered(value);
  return word == "1" || word == "on" || word == "yes" || word == "true";
}

fs::path home() {
  const auto path = variable({"HOME"});
  if (path.empty()) {
    fail<ConfigError>(
        "HOME is not set, so that there is no place for files of the hub; set HF_HOME to a folder");
  }
  return path;
}

fs::path expanded(const std::string& path) {
  if (path == "~") return home();
  return path.starts_with("~/") ? home() / path.substr(2) : fs::path(path);
}

fs::path hub_home() {
  const auto given = variable({"HF_HOME"});
  if (!given.empty()) return expanded(given);
  const auto caches = variable({"XDG_CACHE_HOME"});
  return (caches.empty() ? home() / ".cache" : expanded(caches)) / "huggingface";
}

std::string find_token() {
  if (is_on(variable({"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return {};
  std::string source = "HF_TOKEN";
  std::string token(trimmed(variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})));
  if (token.empty()) {
    const auto given = variable({"HF_TOKEN_PATH"});
    const auto file = given.empty() ? hub_home() / "token" : expanded(given);
    source = file.string();
    if (is_there(file)) token = trimmed(read_file(source, kMaxTokenBytes));
  }
  const bool is_word =
      std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!is_word) {
    fail<ConfigError>("{}: what stands there is no token; expected one word, hf_...",
                      printable(source));
  }
  return token;
}

}  // namespace

HubSettings hub_settings_of_environment() {
  HubSettings settings;
  auto endpoint = variable({"HF_ENDPOINT"});
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.empty()) settings.endpoint = endpoint;
  if (!settings.endpoint.starts_with("https://") && !settings.endpoint.starts_with("http://")) {
    fail<ConfigError>("HF_ENDPOINT: found '{}'; expected an address: https://huggingface.co",
                      printable_start(settings.endpoint));
  }
  const auto cache = variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  settings.cache = cache.empty() ? hub_home() / "hub" : expanded(cache);
  settings.is_offline = is_on(variable({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  settings.ca_file = variable({"REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"});
  if (!settings.is_offline) settings.token = find_token();
  return settings;
}

}  // namespace fovea::hub
