// One connection: requests in, answers out, in their order.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <string>
#include <vector>

#include "fovea/serve/http/request_parser.h"
#include "fovea/serve/http/server_state.h"
#include "fovea/serve/http/stream.h"

namespace fovea::serve {

// All of it runs on one strand. Requests of a connection are taken one after another: those that
// are sent ahead wait in its buffer, so answers are in their order.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Strand = asio::strand<asio::io_context::executor_type>;

  Connection(std::unique_ptr<Stream> stream, Strand strand,
             const std::shared_ptr<asio::io_context>& io, std::shared_ptr<ServerState> state);
  ~Connection();

  // From here to its end it keeps itself alive.
  void start();

 private:
  // What waits for the handler.
  struct PendingAnswer;

  asio::awaitable<void> run();
  asio::awaitable<bool> serve_one();
  asio::awaitable<bool> read_request(RequestParser& parser, HeldBytes& held);
  asio::awaitable<bool> read_more(const RequestParser& parser);
  asio::awaitable<HttpResponse> respond(HttpRequest&& request, const std::string& id);
  asio::awaitable<HttpResponse> ask_handler(HttpRequest&& request);
  HttpHandler::Done reply_to(const std::shared_ptr<PendingAnswer>& answer) const;
  asio::awaitable<bool> write(std::string head, const std::string& body);
  asio::awaitable<bool> write_continue();
  asio::awaitable<void> close();

  void set_limit(std::chrono::milliseconds time);
  void lift_limit();
  void watch_limit();
  void on_drain();

  std::unique_ptr<Stream> stream_;
  Strand strand_;
  std::weak_ptr<asio::io_context> io_;  // which owns this connection while it waits
  std::shared_ptr<ServerState> state_;
  // When it has passed, what the stream waits for is broken off. It changes several times in each
  // request, and each time that a timer is set anew wakes a thread; so the timer may be due before
  // it, and is set again then.
  std::chrono::steady_clock::time_point limit_ = std::chrono::steady_clock::time_point::max();
  asio::steady_timer limit_timer_;
  bool is_watched_ = false;  // the timer is set, for `limit_` or a moment before
  std::vector<char> piece_;
  std::string pending_;  // bytes that have come and were not taken
  std::chrono::steady_clock::time_point request_start_, body_start_;
  int64_t number_ = 0;
  bool is_first_ = true, is_idle_ = false, is_late_ = false, is_broken_ = false;
};

}  // namespace fovea::serve
