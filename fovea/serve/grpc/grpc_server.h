// gRPC for a handler of HTTP requests: libfovea_grpc.so, where it was built.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "fovea/serve/grpc/module_interface.h"
#include "fovea/serve/http/http_server.h"
#include "fovea/serve/http_message.h"

namespace fovea::serve {

// Whether its file is there.
bool has_grpc_module();
// Throws ConfigError: it is not there, or of another version, and what to do.
const GrpcModule& load_grpc_module();

class GrpcServer {
 public:
  // Listens from here on, with the keys, the certificate and the limits that an HttpServer has of
  // these options; `handler` outlives it. Throws ConfigError: as HttpServer does.
  GrpcServer(const HttpServerOptions& options, HttpHandler& handler, const GrpcModule& module);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int64_t port() const;

  // Refuses what comes from here on, and returns when what was taken is answered, or after
  // `patience`: then false.
  bool drain(std::chrono::milliseconds patience);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fovea::serve
