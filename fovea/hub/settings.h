// Where the hub is and where its files are kept: huggingface_hub's variables of the environment,
// with its meanings.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace fovea::hub {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";
  std::filesystem::path cache{};  // $HF_HOME/hub
  std::string token{};            // empty: none is sent
  std::string ca_file{};          // who signs for https; empty: whom the system trusts
  bool is_offline = false;        // what is in the cache is all there is
  // Between two tries, doubled each time.
  std::chrono::milliseconds first_wait{1000};
};

// HF_ENDPOINT; HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME; HF_TOKEN, HF_TOKEN_PATH, $HF_HOME/token,
// HF_HUB_DISABLE_IMPLICIT_TOKEN; HF_HUB_OFFLINE; REQUESTS_CA_BUNDLE,
// SSL_CERT_FILE. Throws ConfigError: an endpoint
// that is no address, a token of several lines, no HOME.
HubSettings hub_settings_of_environment();

}  // namespace fovea::hub
