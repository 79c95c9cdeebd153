// HTTP/1.1 requests out of bytes, however these are cut: Boost.Beast's parser and our limits. It
// knows nothing of sockets.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "fovea/serve/http/http_limits.h"
#include "fovea/serve/http_message.h"

namespace fovea::serve {

// Of one request.
class RequestParser {
 public:
  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  enum class State { kNothing, kHead, kBody, kDone };

  // `bytes`: all that has come and was not taken before. Returns how many are taken, none of what
  // follows the request. Throws StatusError: 400, 413, 414, 431, 501 or 505.
  size_t feed(std::string_view bytes);
  State state() const { return state_; }

  // From kBody on: all but the body.
  const HttpRequest& request() const;
  // Whether the client waits for "100 Continue" before it sends a body.
  bool wants_continue() const;
  // Whether the connection may be used for another request.
  bool keeps_alive() const;
  size_t body_size() const { return request().body.size(); }

  // In kDone: the request, its body expanded. Throws StatusError: 400, 413 or 415.
  HttpRequest take();

 private:
  class Beast;

  size_t feed_head(std::string_view bytes);
  size_t feed_body(std::string_view bytes);

  HttpLimits limits_;
  std::unique_ptr<Beast> beast_;
  State state_ = State::kNothing;
  size_t searched_ = 0;  // of a head that is not whole yet
};

}  // namespace fovea::serve
