#include "fovea/serve/http/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <thread>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/serve/http/connection.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/http/listen_address.h"
#include "fovea/serve/http/response_head.h"
#include "fovea/serve/http/tls.h"

namespace fovea::serve {
namespace {

using asio::ip::tcp;
constexpr std::chrono::milliseconds kNoDescriptorPause{100};

void warn_of_plain_text(const HttpServerOptions& options, const asio::ip::address& address) {
  if (address.is_loopback() || !options.tls_certificate.empty()) return;
  log_warning(
      fmt::format("{} without TLS: keys and images are read by whoever sees the network; give "
                  "--tls-certificate and --tls-key, or stand behind a proxy that has them",
                  printable(options.host)));
}

std::unique_ptr<TlsContext> tls_of(const HttpServerOptions& options) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    fail<ConfigError>("TLS needs both a certificate (--tls-certificate) and its key (--tls-key)");
  }
  if (options.tls_certificate.empty()) return nullptr;
  return std::make_unique<TlsContext>(options.tls_certificate, options.tls_key);
}

void listen_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return;
  if (error == asio::error::address_in_use) {
    fail<ConfigError>(
        "port {} of {} is in use; expected a free one: give another with --port, 0 for any",
        endpoint.port(), endpoint.address().to_string());
  }
  fail<ConfigError>("port {} of {}: {}; expected an address of this machine and a free port",
                    endpoint.port(), endpoint.address().to_string(), error.message());
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, HttpHandler& handler)
      : io_(std::make_shared<asio::io_context>()),
        work_(asio::make_work_guard(*io_)),
        tls_(tls_of(options)),
        state_(std::make_shared<ServerState>(handler, options.limits,
                                             Access(options.bearer_file, options.open_paths))),
        strand_(asio::make_strand(*io_)),
        acceptor_(strand_),
        pause_(strand_) {
    if (options.port < 0 || options.port > 65535) {
      fail<ConfigError>("--port {}: expected 0 (any) to 65535", options.port);
    }
    const auto address = asio::ip::make_address(listen_address(options));
    warn_of_plain_text(options, address);
    listen_on(acceptor_, {address, static_cast<uint16_t>(options.port)});
    port_ = acceptor_.local_endpoint().port();
    asio::co_spawn(
        strand_, [this] { return accept_all(); }, asio::detached);
    for (int64_t i = 0; i < std::max<int64_t>(options.threads, 1); ++i) {
      threads_.emplace_back([io = io_] { io->run(); });
    }
  }

  ~Impl() {
    drain(std::chrono::milliseconds(0));
    io_->stop();
    for (auto& thread : threads_) thread.join();
  }

  int64_t port() const { return port_; }
  int64_t num_connections() const { return state_->connections.count(); }

  bool drain(std::chrono::milliseconds patience) {
    state_->is_draining = true;
    std::promise<void> is_closed;
    asio::post(strand_, [&] {
      stop_listening();
      is_closed.set_value();
    });
    is_closed.get_future().wait();
    state_->connections.tell_to_drain();
    return state_->connections.wait_until_none(patience);
  }

 private:
  asio::awaitable<void> accept_all() {
    while (acceptor_.is_open()) {
      error_code error;
      tcp::socket socket =
          co_await acceptor_.async_accept(*io_, asio::redirect_error(asio::use_awaitable, error));
      if (!acceptor_.is_open()) co_return;
      if (!error) {
        take(std::move(socket));
      } else if (error != asio::error::connection_aborted) {
        log_warning(fmt::format("a connection could not be taken: {}", error.message()));
        pause_.expires_after(kNoDescriptorPause);  // no descriptor is free: some soon are
        co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
    }
  }

  // Connections that wait in the system's queue were made: they are answered too.
  void stop_listening() {
    if (!acceptor_.is_open()) return;
    error_code error;
    acceptor_.non_blocking(true, error);
    while (!error) {
      tcp::socket socket(*io_);
      acceptor_.accept(socket, error);
      if (!error) take(std::move(socket));
    }
    acceptor_.close(error);
    pause_.cancel();
  }

  void take(tcp::socket&& socket) {
    if (num_connections() >= state_->limits.max_connections) return refuse(std::move(socket));
    auto strand = asio::make_strand(*io_);
    auto stream = tls_ ? tls_->stream(std::move(socket)) : plain_stream(std::move(socket));
    std::make_shared<Connection>(std::move(stream), std::move(strand), io_, state_)->start();
  }

  // A client of TLS, which would take this for damage, sees the end alone.
  void refuse(tcp::socket&& socket) {
    error_code error;
    socket.non_blocking(true, error);
    const auto response = error_response(503, "too many connections; try again");
    const std::string text = response_head(response, false, "") + response.body;
    if (!tls_) socket.write_some(asio::buffer(text), error);
    socket.shutdown(tcp::socket::shutdown_send, error);
  }

  std::shared_ptr<asio::io_context> io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;  // threads stay without any
  std::unique_ptr<TlsContext> tls_;
  std::shared_ptr<ServerState> state_;
  Connection::Strand strand_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::vector<std::thread> threads_;
  int64_t port_ = 0;
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler& handler)
    : impl_(std::make_unique<Impl>(options, handler)) {}
HttpServer::~HttpServer() = default;

int64_t HttpServer::port() const { return impl_->port(); }
int64_t HttpServer::num_connections() const { return impl_->num_connections(); }
bool HttpServer::drain(std::chrono::milliseconds patience) { return impl_->drain(patience); }

}  // namespace fovea::serve
