// TLS for connections, by OpenSSL.
#pragma once

#include <memory>
#include <string>

#include "fovea/serve/http/stream.h"

namespace fovea::serve {

class TlsContext {
 public:
  // PEM files: a certificate with those that lead to its authority, and its key. Throws
  // ConfigError: they cannot be read, or do not fit each other.
  TlsContext(const std::string& certificate, const std::string& key);
  ~TlsContext();

  std::unique_ptr<Stream> stream(asio::ip::tcp::socket&& socket);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace fovea::serve
