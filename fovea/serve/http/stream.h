// A connection's bytes, plain or through TLS. Seen by the server's own files alone: Asio is heavy
// to compile.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <utility>  // Asio 1.18's awaitable.hpp uses it without including it

namespace fovea::serve {

namespace asio = boost::asio;
using boost::system::error_code;

// Whatever waits ends with an error when socket().cancel() is called.
class Stream {
 public:
  explicit Stream(asio::ip::tcp::socket&& socket) : socket_(std::move(socket)) {}
  virtual ~Stream() = default;
  virtual asio::awaitable<void> begin(error_code& error) = 0;
  virtual asio::awaitable<size_t> read_some(asio::mutable_buffer bytes, error_code& error) = 0;
  virtual asio::awaitable<void> write(asio::const_buffer bytes, error_code& error) = 0;
  // That nothing follows, in the words of the protocol within TCP.
  virtual asio::awaitable<void> end(error_code& error) = 0;
  asio::ip::tcp::socket& socket() { return socket_; }

 protected:
  asio::ip::tcp::socket socket_;
};

std::unique_ptr<Stream> plain_stream(asio::ip::tcp::socket&& socket);

}  // namespace fovea::serve
