#include "fovea/serve/http/stream.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace fovea::serve {
namespace {

class PlainStream final : public Stream {
 public:
  using Stream::Stream;
  asio::awaitable<void> begin(error_code& error) override {
    socket_.non_blocking(true, error);
    co_return;
  }
  asio::awaitable<size_t> read_some(asio::mutable_buffer bytes, error_code& error) override {
    co_return co_await socket_.async_read_some(bytes,
                                               asio::redirect_error(asio::use_awaitable, error));
  }
  asio::awaitable<void> write(asio::const_buffer bytes, error_code& error) override {
    // Mostly the system takes all of it at once, and no thread need be woken to say so.
    bytes += socket_.write_some(bytes, error);
    if (error == asio::error::would_block) error = {};
    if (error || bytes.size() == 0) co_return;
    co_await asio::async_write(socket_, bytes, asio::redirect_error(asio::use_awaitable, error));
  }
  asio::awaitable<void> end(error_code&) override { co_return; }
};

}  // namespace

std::unique_ptr<Stream> plain_stream(asio::ip::tcp::socket&& socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace fovea::serve
