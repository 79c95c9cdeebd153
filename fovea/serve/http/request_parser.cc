#include "fovea/serve/http/request_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <string>
#include <utility>

#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/serve/http/body_encoding.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/http/request_target.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

constexpr size_t kMaxFields = 100;
constexpr size_t kReservedBytes = size_t{1} << 20;  // of a body that is announced, not there yet

StatusError too_large(size_t max_bytes) {
  return {413, fmt::format("a body of more than {} bytes, which is the limit", max_bytes)};
}

StatusError error_of(const error_code& error, const HttpLimits& limits) {
  if (error == http::error::body_limit) return too_large(limits.body_bytes);
  if (error == http::error::bad_version) return {505, "expected HTTP/1.1 or HTTP/1.0"};
  return {400, fmt::format("not a request of HTTP/1.1: {}", error.message())};
}

size_t count_of(const HttpRequest& request, std::string_view name) {
  return static_cast<size_t>(
      std::count_if(request.headers.begin(), request.headers.end(),
                    [&](const auto& header) { return header.first == name; }));
}

}  // namespace

// Beast says what each part is; a part that we refuse is thrown through it, after which it is not
// used again.
class RequestParser::Beast final : public http::basic_parser<true> {
 public:
  explicit Beast(const HttpLimits& limits) : limits_(limits) {
    eager(true);
    header_limit(static_cast<uint32_t>(limits.header_bytes));
    body_limit(limits.body_bytes);
  }

  HttpRequest request;

 private:
  using string_view = boost::beast::string_view;

  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code&) override {
    is_http_11_ = version == 11;
    request.method = std::string(method);
    request.path = path_of_target({target.data(), target.size()});
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    if (is_header_done()) return;  // trailers say nothing to us
    if (request.headers.size() == kMaxFields) fail_with(431, "more than 100 headers");
    request.headers.emplace_back(lowered({name.data(), name.size()}), std::string(value));
  }
  void on_header_impl(error_code&) override {
    // Servers that disagree on where a request ends, or whom it is for, can be played against each
    // other.
    const auto* const coding = find_header(request.headers, "transfer-encoding");
    if (coding != nullptr && lowered(*coding) != "chunked") {
      fail_with(501, "Transfer-Encoding: found {}; expected chunked", printable_start(*coding));
    }
    const size_t num_hosts = count_of(request, "host");
    if (num_hosts > 1 || count_of(request, "transfer-encoding") > 1) {
      fail_with(400, "a header that a request has once is there twice");
    }
    if (num_hosts == 0 && is_http_11_) fail_with(400, "the header Host is missing");
  }
  void on_body_init_impl(const boost::optional<uint64_t>& length, error_code&) override {
    request.body.reserve(std::min<size_t>(length.value_or(0), kReservedBytes));
  }
  size_t on_body_impl(string_view bytes, error_code&) override { return append(bytes); }
  void on_chunk_header_impl(uint64_t, string_view, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, string_view bytes, error_code&) override {
    return append(bytes);
  }
  void on_finish_impl(error_code&) override {}

  size_t append(string_view bytes) {
    if (bytes.size() > limits_.body_bytes - request.body.size()) {
      throw too_large(limits_.body_bytes);
    }
    request.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }

  HttpLimits limits_;
  bool is_http_11_ = true;
};

RequestParser::RequestParser(const HttpLimits& limits)
    : limits_(limits), beast_(std::make_unique<Beast>(limits)) {}
RequestParser::~RequestParser() = default;

// The head goes to Beast as a whole: it would take it line by line, and limit each alone.
size_t RequestParser::feed_head(std::string_view bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t blank = bytes.starts_with("\r\n") ? 2 : 0;  // some clients end a body so
  if (bytes.size() == blank) return searched_ == 0 ? blank : 0;
  state_ = State::kHead;
  const auto end = bytes.find(kEnd, std::max(searched_, blank));
  const size_t length = end == std::string_view::npos ? bytes.size() : end + kEnd.size();
  if (length > limits_.header_bytes) {
    fail_with(431, "headers of more than {} bytes", limits_.header_bytes);
  }
  if (end == std::string_view::npos) {
    searched_ = bytes.size() < kEnd.size() ? 0 : bytes.size() - kEnd.size() + 1;
    return 0;
  }
  error_code error;
  beast_->put({bytes.data() + blank, length - blank}, error);
  if (error && error != http::error::need_more) throw error_of(error, limits_);
  state_ = beast_->is_done() ? State::kDone : State::kBody;
  return length;
}

size_t RequestParser::feed_body(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && !beast_->is_done()) {
    error_code error;
    const size_t count = beast_->put({bytes.data() + taken, bytes.size() - taken}, error);
    taken += count;
    if (error && error != http::error::need_more) throw error_of(error, limits_);
    if (error || count == 0) break;
  }
  if (beast_->is_done()) {
    state_ = State::kDone;
  } else if (bytes.size() - taken > limits_.header_bytes) {
    fail_with(400, "a chunk's head that does not end");
  }
  return taken;
}

size_t RequestParser::feed(std::string_view bytes) {
  const bool is_in_head = state_ == State::kNothing || state_ == State::kHead;
  const size_t taken = is_in_head ? feed_head(bytes) : 0;
  return state_ == State::kBody ? taken + feed_body(bytes.substr(taken)) : taken;
}

const HttpRequest& RequestParser::request() const { return beast_->request; }

bool RequestParser::wants_continue() const {
  const auto* const expected = find_header(request().headers, "expect");
  return expected != nullptr && lowered(*expected) == "100-continue";
}

bool RequestParser::keeps_alive() const { return beast_->keep_alive(); }

HttpRequest RequestParser::take() {
  HttpRequest request = std::move(beast_->request);
  const auto* const encoding = find_header(request.headers, "content-encoding");
  if (encoding != nullptr) {
    request.body = expand_body(std::move(request.body), *encoding, limits_.body_bytes);
  }
  return request;
}

}  // namespace fovea::serve
