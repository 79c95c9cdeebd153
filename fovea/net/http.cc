#include "fovea/net/http.h"

#include <algorithm>
#include <limits>

#include "fovea/net/transfer.h"

namespace fovea::net {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const CurlLibrary& curl() { return curl_library(); }

[[noreturn]] void fail_too_large(size_t limit) {
  throw HttpError(HttpError::Kind::kTooLarge, true,
                  fmt::format("an answer of more than {} MiB", limit >> 20));
}

}  // namespace

HttpClient::HttpClient() {
  // Counted by the library; from several threads at once, too.
  if (curl().global_init(CURL_GLOBAL_DEFAULT) != 0) fail("libcurl does not start");
  multi_ = curl().multi_init();
  if (multi_ == nullptr) fail("libcurl has no memory");
}

HttpClient::~HttpClient() {
  curl().multi_cleanup(multi_);
  curl().global_cleanup();
}

bool HttpClient::run(Transfer& transfer, milliseconds timeout) {
  const auto deadline = timeout.count() > 0 ? Clock::now() + timeout : Clock::time_point::max();
  for (;;) {
    if (is_interrupted_) {
      throw HttpError(HttpError::Kind::kInterrupted, transfer.is_sent(), "interrupted");
    }
    int running = 0;
    curl().multi_perform(multi_, &running);
    int queued = 0;
    while (const CURLMsg* message = curl().multi_info_read(multi_, &queued)) {
      if (message->msg != CURLMSG_DONE) continue;
      transfer.check(message->data.result);
      return true;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    curl().multi_poll(multi_, nullptr, 0, static_cast<int>(std::min<int64_t>(left, 1000)), nullptr);
  }
}

HttpReply HttpClient::download(const HttpRequest& request, const OnBytes& on_bytes) {
  Transfer transfer(multi_, request, on_bytes);
  if (!run(transfer, request.timeout)) {
    throw HttpError(HttpError::Kind::kNoAnswer, transfer.is_sent(),
                    fmt::format("no answer within {:.1f} s",
                                std::chrono::duration<double>(request.timeout).count()));
  }
  return transfer.reply();
}

HttpReply HttpClient::perform(const HttpRequest& request) {
  std::string body;
  auto reply = download(request, [&](const HttpReply&, std::string_view bytes) {
    if (body.size() + bytes.size() > request.max_body_bytes) fail_too_large(request.max_body_bytes);
    body += bytes;
    return true;
  });
  reply.body = std::move(body);
  return reply;
}

int64_t HttpClient::stream(const HttpRequest& request,
                           const std::function<bool(std::string_view)>& on_line) {
  std::string line;
  Transfer transfer(multi_, request, [&](const HttpReply&, std::string_view bytes) {
    for (size_t end; (end = bytes.find('\n')) != bytes.npos; bytes.remove_prefix(end + 1)) {
      line += bytes.substr(0, end);
      if (!line.empty() && !on_line(line)) return false;
      line.clear();
    }
    line += bytes;
    if (line.size() > request.max_body_bytes) fail_too_large(request.max_body_bytes);
    return true;
  });
  const bool has_ended = run(transfer, request.timeout);
  if (has_ended && !transfer.is_ended() && !line.empty()) on_line(line);
  return transfer.reply().status;
}

void HttpClient::interrupt() {
  is_interrupted_ = true;
  curl().multi_wakeup(multi_);
}

}  // namespace fovea::net
