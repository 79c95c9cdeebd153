// HTTP/1.1 for a handler: keep-alive, pipelining, chunked and compressed bodies, "100 Continue",
// TLS, bearer keys, and limits on what a client may take of the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/serve/http/http_limits.h"
#include "fovea/serve/http_message.h"

namespace fovea::serve {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // another than loopback's needs bearer_file
  int64_t port = 8000;             // 0: any that is free
  std::string bearer_file = {};    // keys, one a line
  std::string tls_certificate = {}, tls_key = {};
  std::vector<std::string> open_paths = {};  // are answered without a key
  int64_t threads = 2;
  HttpLimits limits = {};
};

class HttpServer {
 public:
  // Listens from here on; `handler` outlives the server. Throws ConfigError: an address that is in
  // use or not this machine's, a certificate that does not fit its key, a host that others reach
  // without a key.
  HttpServer(const HttpServerOptions& options, HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int64_t port() const;
  int64_t num_connections() const;

  // Takes no more connections, answers what is there, with "Connection: close", and returns when
  // all connections are gone, or after `patience`: then false.
  bool drain(std::chrono::milliseconds patience);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fovea::serve
