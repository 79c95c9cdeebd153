#include "fovea/serve/http/listen_address.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/serve/http/stream.h"

namespace fovea::serve {
namespace {

asio::ip::address address_of(const std::string& host) {
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return address;
  asio::io_context io;
  const auto found = asio::ip::tcp::resolver(io).resolve(host, "", error);
  if (error || found.empty()) {
    fail<ConfigError>("--host {}: {}; expected an address of this machine, such as 127.0.0.1",
                      printable(host), error.message());
  }
  return found.begin()->endpoint().address();
}

}  // namespace

std::string listen_address(const HttpServerOptions& options) {
  const auto address = address_of(options.host);
  if (!address.is_loopback() && options.bearer_file.empty()) {
    fail<ConfigError>(
        "--host {}: others reach this address, and there is no key; expected --bearer-file FILE "
        "with one (openssl rand -hex 32 makes it), or --host 127.0.0.1 behind a proxy that asks",
        printable(options.host));
  }
  return address.to_string();
}

}  // namespace fovea::serve
