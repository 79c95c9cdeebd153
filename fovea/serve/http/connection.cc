#include "fovea/serve/http/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

#include "fovea/core/log.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/http/response_head.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kPieceBytes = size_t{64} << 10;
constexpr size_t kJoinedBytes = size_t{64} << 10;  // a short body goes out with its head

HttpResponse options_response() {
  return {.status = 204, .headers = {{"Allow", "GET, HEAD, POST, OPTIONS"}}, .body = {}};
}

HttpResponse response_of(const StatusError& error) {
  auto response = error_response(error.status(), error.what());
  if (error.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

}  // namespace

// Its members are touched on the connection's strand alone.
struct Connection::PendingAnswer {
  explicit PendingAnswer(const Strand& strand) : timer(strand) {}
  asio::steady_timer timer;
  std::optional<HttpResponse> response;
};

Connection::Connection(std::unique_ptr<Stream> stream, Strand strand,
                       const std::shared_ptr<asio::io_context>& io,
                       std::shared_ptr<ServerState> state)
    : stream_(std::move(stream)),
      strand_(std::move(strand)),
      io_(io),
      state_(std::move(state)),
      limit_timer_(strand_),
      piece_(kPieceBytes) {}

Connection::~Connection() { state_->connections.remove(number_); }

void Connection::start() {
  number_ = state_->connections.add([weak = weak_from_this(), strand = strand_] {
    asio::post(strand, [weak] {
      if (const auto self = weak.lock()) self->on_drain();
    });
  });
  asio::co_spawn(
      strand_, [self = shared_from_this()] { return self->run(); }, asio::detached);
}

void Connection::set_limit(milliseconds time) {
  is_late_ = false;
  limit_ = Clock::now() + time;
  if (!is_watched_ || limit_ < limit_timer_.expiry()) watch_limit();
}

void Connection::lift_limit() { limit_ = Clock::time_point::max(); }

void Connection::watch_limit() {
  is_watched_ = true;
  limit_timer_.expires_at(limit_);
  limit_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->limit_timer_.expiry() > Clock::now()) return;  // set anew meanwhile
    self->is_watched_ = false;
    if (self->limit_ == Clock::time_point::max()) return;
    if (self->limit_ > Clock::now()) return self->watch_limit();
    self->is_late_ = true;
    error_code ignored;
    self->stream_->socket().cancel(ignored);
  });
}

void Connection::on_drain() {
  if (is_idle_) set_limit(state_->limits.drain_idle_time);
}

asio::awaitable<void> Connection::run() {
  const auto self = shared_from_this();
  error_code error;
  stream_->socket().set_option(asio::ip::tcp::no_delay(true), error);
  error = {};
  set_limit(state_->limits.header_time);
  co_await stream_->begin(error);
  if (!error) {
    while (co_await serve_one()) {
    }
    co_await close();
  }
  limit_timer_.cancel();
}

// Whether there may be another.
asio::awaitable<bool> Connection::serve_one() {
  RequestParser parser(state_->limits);
  HeldBytes held{state_->bodies};
  HttpRequest request;
  HttpResponse response;
  std::optional<StatusError> refused;
  try {
    if (!co_await read_request(parser, held)) co_return false;
    request = parser.take();
    held.grow_to(request.body.size());
  } catch (const StatusError& error) {
    refused = error;
  }
  const std::string id = state_->id_of(refused ? parser.request() : request);
  const bool is_head = (refused ? parser.request() : request).method == "HEAD";
  if (refused) {
    response = response_of(*refused);
  } else {
    response = co_await respond(std::move(request), id);
  }
  const bool may_end = state_->is_draining && pending_.empty();  // else another was taken already
  const bool keeps_alive = !refused && parser.keeps_alive() && !may_end;
  std::string head = response_head(response, keeps_alive, id);
  if (is_head) response.body.clear();
  const bool is_written = co_await write(std::move(head), response.body);
  co_return (is_written && keeps_alive);
}

// False: the connection has ended, or nothing came for so long that it should.
asio::awaitable<bool> Connection::read_request(RequestParser& parser, HeldBytes& held) {
  using State = RequestParser::State;
  bool is_head_checked = false;
  request_start_ = Clock::now();
  for (;;) {
    if (!pending_.empty()) pending_.erase(0, parser.feed(pending_));
    const auto state = parser.state();
    if (state >= State::kBody) {
      held.grow_to(parser.body_size());
      if (!is_head_checked) {
        is_head_checked = true;
        state_->access.check(parser.request());
        body_start_ = Clock::now();
        const bool is_awaited =
            state == State::kBody && parser.body_size() == 0 && parser.wants_continue();
        if (is_awaited && !co_await write_continue()) co_return false;
      }
    }
    if (state == State::kDone) co_return true;
    if (!co_await read_more(parser)) co_return false;
  }
}

// False: the connection has ended. Throws StatusError 408.
asio::awaitable<bool> Connection::read_more(const RequestParser& parser) {
  using State = RequestParser::State;
  const auto& limits = state_->limits;
  is_idle_ = parser.state() == State::kNothing;
  if (is_idle_) {
    set_limit(state_->is_draining ? limits.drain_idle_time
              : is_first_         ? limits.header_time
                                  : limits.idle_time);
  } else if (parser.state() == State::kHead) {
    set_limit(limits.header_time - since(request_start_));
  } else {
    set_limit(limits.transfer_time(parser.body_size()) - since(body_start_));
  }
  error_code error;
  const size_t count =
      co_await stream_->read_some(asio::buffer(piece_.data(), piece_.size()), error);
  if (is_idle_ && !error) request_start_ = Clock::now();
  const bool was_idle = std::exchange(is_idle_, false);
  is_first_ = false;
  if (!error) {
    pending_.append(piece_.data(), count);
    co_return true;
  }
  if (!is_late_) is_broken_ = true;
  if (is_broken_ || was_idle) co_return false;
  throw StatusError(408, parser.state() == State::kHead ? "the request's headers came too slowly"
                                                        : "the request's body came too slowly");
}

asio::awaitable<HttpResponse> Connection::respond(HttpRequest&& request, const std::string& id) {
  lift_limit();
  const std::string& method = request.method;
  if (method == "OPTIONS") co_return options_response();
  if (method != "GET" && method != "HEAD" && method != "POST") {
    auto response = error_response(405, "expected GET, HEAD, POST or OPTIONS");
    response.headers.emplace_back("Allow", "GET, HEAD, POST, OPTIONS");
    co_return response;
  }
  if (method == "HEAD") request.method = "GET";  // the same, of which the head is sent
  request.id = id;
  const auto start = Clock::now();
  request.deadline = start + state_->limits.answer_time;
  auto response = co_await ask_handler(std::move(request));
  if (response.status >= 500) {
    log_warning(
        fmt::format("request {}: {} after {} ms", id, response.status, since(start).count()));
  }
  co_return response;
}

// Whoever answers may do so when this connection, or the server, is gone. The last of them takes
// `io` along, which stands first: timer and strand, which look into it as they go, go before it.
HttpHandler::Done Connection::reply_to(const std::shared_ptr<PendingAnswer>& answer) const {
  return [io = io_.lock(), answer, strand = strand_](HttpResponse&& response) {
    auto kept = std::make_shared<HttpResponse>(std::move(response));
    asio::post(strand, [answer, kept = std::move(kept)] {
      if (answer->response) return;
      answer->response = std::move(*kept);
      answer->timer.cancel();
    });
  };
}

asio::awaitable<HttpResponse> Connection::ask_handler(HttpRequest&& request) {
  const auto answer = std::make_shared<PendingAnswer>(strand_);
  answer->timer.expires_at(request.deadline);
  try {
    state_->handler.handle(std::move(request), reply_to(answer));
  } catch (const std::exception&) {  // what it says may hold parts of the request
    co_return error_response(500, "an error within the server, which knows it by the request's id");
  }
  error_code ignored;
  co_await answer->timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (!answer->response) {
    answer->response = error_response(
        504, fmt::format("no answer within {} s", state_->limits.answer_time.count() / 1000.0));
  }
  co_return std::move(*answer->response);
}

// False: the client has left, or reads too slowly.
asio::awaitable<bool> Connection::write(std::string head, const std::string& body) {
  set_limit(state_->limits.transfer_time(body.size()));
  error_code error;
  const bool is_joined = body.size() <= kJoinedBytes;
  if (is_joined) head += body;
  co_await stream_->write(asio::buffer(head), error);
  if (!error && !is_joined) co_await stream_->write(asio::buffer(body), error);
  is_broken_ |= static_cast<bool>(error);
  co_return !error;
}

asio::awaitable<bool> Connection::write_continue() {
  set_limit(state_->limits.header_time);
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  error_code error;
  co_await stream_->write(asio::buffer(kContinue), error);
  is_broken_ |= static_cast<bool>(error);
  co_return !error;
}

// Closed at once with bytes of the client unread, a connection is reset, and the client may never
// read why it was refused.
asio::awaitable<void> Connection::close() {
  if (is_broken_) co_return;
  set_limit(state_->limits.linger_time);
  error_code error;
  co_await stream_->end(error);
  auto& socket = stream_->socket();
  error = {};
  socket.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  while (!error && !is_late_) {
    co_await socket.async_read_some(asio::buffer(piece_.data(), piece_.size()),
                                    asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace fovea::serve
