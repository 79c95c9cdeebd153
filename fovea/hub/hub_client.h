// Questions to the hub: what it says of a file, and its bytes. The token goes to the hub alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "fovea/hub/file_head.h"
#include "fovea/hub/hub_name.h"
#include "fovea/hub/settings.h"
#include "fovea/net/http.h"

namespace fovea::hub {

class HubClient {
 public:
  explicit HubClient(HubSettings settings);

  // Redirects on the hub itself, such as that of a repository that has another name now, are
  // followed. tries: how often it is asked while it does not answer. Throws HubError, DataError.
  FileHead head(const HubName& name, const std::string& file, int tries);

  // The bytes of a file from `offset` on, wherever its url leads. The first answer that is none of
  // a redirect goes to on_bytes, whatever its status. Throws net::HttpError, HubError: an answer
  // that leads in a circle, or from https to http; what on_bytes throws.
  net::HttpReply get(const std::string& url, uint64_t offset,
                     const net::HttpClient::OnBytes& on_bytes);

  const HubSettings& settings() const { return settings_; }
  bool has_token() const { return !settings_.token.empty(); }
  // Before the next of several tries.
  void wait(int tries_before) const;

 private:
  net::HttpRequest request_to(const std::string& url) const;
  net::HttpReply ask_head(const std::string& url);

  HubSettings settings_;
  std::string origin_;
  net::HttpClient http_;
};

}  // namespace fovea::hub
