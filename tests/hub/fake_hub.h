// The Hugging Face hub for a test: one repository, small files and large ones, and what goes wrong.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/hub/settings.h"
#include "tests/net/scripted_server.h"

namespace fovea::hub {

inline const std::string kFakeCommit = "0123456789abcdef0123456789abcdef01234567";

// What one answer of its other host, from which large files come, does.
enum class Delivery {
  kWell,
  kCut,          // half of what was asked for, then the connection ends
  kAll,          // 200 with everything, though a part was asked for
  kMore,         // a byte more than there should be
  kOtherBytes,   // as many, but others
  kOtherRange,   // a part that was not asked for
  kUnavailable,  // 503
  kExpired       // 403: the address was good for a while
};

class FakeHub {
 public:
  FakeHub();

  std::string repository = "org/vit";
  std::map<std::string, std::string> small, large;  // by name
  std::vector<Delivery> deliveries;                 // of the next answers; then kWell
  std::string token;                                // empty: none is needed
  std::string error_code;                           // of every answer to HEAD; empty: none
  int64_t error_status = 404;
  std::string etag;  // instead of that of the content

  // With a cache of its own, and no waiting.
  HubSettings settings(const std::string& cache) const;
  std::vector<std::string> requests() const { return hub_.requests(); }
  std::vector<std::string> requests_of_content() const { return content_.requests(); }

 private:
  std::string answer(const std::string& request);
  std::string answer_with_content(const std::string& request);

  net::ScriptedServer content_, hub_;  // two origins: the port differs
};

}  // namespace fovea::hub
