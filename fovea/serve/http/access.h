// Who may ask: bearer keys, and pages of other sites.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/serve/http_message.h"

namespace fovea::serve {

class Access {
 public:
  // bearer_file: keys, one a line, any of which opens; empty: nobody needs one. open_paths: those
  // that are answered without. Throws ConfigError: no key in it, or one that is easily guessed.
  Access(const std::string& bearer_file, std::vector<std::string> open_paths);

  bool needs_key() const { return !keys_.empty(); }
  // Throws StatusError: 401 without a key that fits; 403 for what a page of another site asks,
  // whose reader knows nothing of it.
  void check(const HttpRequest& request) const;

 private:
  bool has_key(const HttpRequest& request) const;

  std::vector<std::string> keys_;  // digests of them, which all have one length
  std::vector<std::string> open_paths_;
};

}  // namespace fovea::serve
