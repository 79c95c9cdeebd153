// What the hub refuses, and that it does not answer.
#pragma once

#include <string>

#include "fovea/core/error.h"
#include "fovea/net/http.h"

namespace fovea::hub {

class HubError : public Error {
 public:
  enum class Kind {
    kNoRepository,  // or one that is private, and the token is none of its
    kGated,         // its owner lets those in who have asked
    kNoRevision,
    kNoEntry,  // the repository has no such file
    kDenied,   // the token is refused
    kNoAnswer  // nobody there, no network, or no sense in it for now
  };
  HubError(Kind kind, const std::string& message) : Error(message), kind_(kind) {}
  Kind kind() const { return kind_; }
  ExitCode exit_code() const override { return ExitCode::kConfig; }

 private:
  Kind kind_;
};

// Told to stop while a file was fetched: what is there of it stays.
class FetchStopped : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kStopped; }
};

// Whether it may be another answer in a while: the hub has too much to do, or is being repaired.
bool is_passing(int64_t status);

// Which of the refusals an answer is, by its status and X-Error-Code. repository: its name with the
// revision; file: in it. Throws HubError.
[[noreturn]] void refuse(const net::HttpReply& reply, const std::string& repository,
                         const std::string& file, bool has_token);

}  // namespace fovea::hub
