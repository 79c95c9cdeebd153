// An error with the HTTP status that tells a client what kind of one it is.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::serve {

// Triton's statuses: 400 the request is wrong, 404 no such thing, 503 not now.
class StatusError : public Error {
 public:
  StatusError(int status, const std::string& message) : Error(message), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

template <class... Args>
[[noreturn]] void fail_with(int status, fmt::format_string<Args...> format, Args&&... args) {
  throw StatusError(status, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fovea::serve
