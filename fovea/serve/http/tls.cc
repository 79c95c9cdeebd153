#include "fovea/serve/http/tls.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/core/printable.h"

namespace fovea::serve {
namespace {

namespace ssl = asio::ssl;

class TlsStream final : public Stream {
 public:
  TlsStream(asio::ip::tcp::socket&& socket, ssl::context& context)
      : Stream(std::move(socket)), stream_(socket_, context) {}
  asio::awaitable<void> begin(error_code& error) override {
    co_await stream_.async_handshake(ssl::stream_base::server,
                                     asio::redirect_error(asio::use_awaitable, error));
  }
  asio::awaitable<size_t> read_some(asio::mutable_buffer bytes, error_code& error) override {
    co_return co_await stream_.async_read_some(bytes,
                                               asio::redirect_error(asio::use_awaitable, error));
  }
  asio::awaitable<void> write(asio::const_buffer bytes, error_code& error) override {
    co_await asio::async_write(stream_, bytes, asio::redirect_error(asio::use_awaitable, error));
  }
  asio::awaitable<void> end(error_code& error) override {
    co_await stream_.async_shutdown(asio::redirect_error(asio::use_awaitable, error));
  }

 private:
  ssl::stream<asio::ip::tcp::socket&> stream_;
};

void check(const error_code& error, const std::string& file, const char* expected) {
  if (!error) return;
  fail<ConfigError>("{}: {}; expected {}", printable(file), error.message(), expected);
}

}  // namespace

struct TlsContext::Context {
  ssl::context ssl{ssl::context::tls_server};
};

TlsContext::TlsContext(const std::string& certificate, const std::string& key)
    : context_(std::make_unique<Context>()) {
  for (const auto& file : {certificate, key}) const InputFile opened(file);  // says what is none
  ssl::context& context = context_->ssl;
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                      ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 |
                      ssl::context::no_compression);
  error_code error;
  context.use_certificate_chain_file(certificate, error);
  check(error, certificate, "a certificate in PEM (--tls-certificate)");
  context.use_private_key_file(key, ssl::context::pem, error);
  check(error, key, "the key of that certificate in PEM, without a password (--tls-key)");
  if (SSL_CTX_check_private_key(context.native_handle()) != 1) {
    fail<ConfigError>("{}: the key of another certificate than {}", printable(key),
                      printable(certificate));
  }
}

TlsContext::~TlsContext() = default;

std::unique_ptr<Stream> TlsContext::stream(asio::ip::tcp::socket&& socket) {
  return std::make_unique<TlsStream>(std::move(socket), context_->ssl);
}

}  // namespace fovea::serve
