#include "fovea/elastic/control/http.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "fovea/core/printable.h"
#include "fovea/elastic/control/curl_library.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr const char* kTooLarge = "an answer of more than 64 MiB";

const CurlLibrary& curl() { return curl_library(); }

// A host that is gone says nothing: a stream on which nothing happens would wait for it for hours.
// With these it is noticed after some 4 s.
int watch_connection(void*, curl_socket_t socket, curlsocktype) {
  const int on = 1, seconds = 1, count = 3;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  return CURL_SOCKOPT_OK;
}

bool is_of_certificate(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR;
}

bool is_before_sending(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
         code == CURLE_SSL_CONNECT_ERROR || is_of_certificate(code);
}

}  // namespace

// One request on a handle of its own. What arrives goes to `take`, which says false to end it.
class HttpClient::Request {
 public:
  Request(void* multi, const HttpPost& post, std::function<bool(std::string_view)> take)
      : multi_(multi), take_(std::move(take)), easy_(curl().easy_init()) {
    if (easy_ == nullptr) fail("libcurl has no memory");
    headers_ = curl().slist_append(headers_, "Content-Type: application/json");
    headers_ = curl().slist_append(headers_, "Expect:");
    if (!post.authorization.empty()) {
      headers_ = curl().slist_append(headers_, ("Authorization: " + post.authorization).c_str());
    }
    curl().easy_setopt(easy_, CURLOPT_URL, post.url.c_str());
    curl().easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl().easy_setopt(easy_, CURLOPT_PROXY, "");
    curl().easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
    curl().easy_setopt(easy_, CURLOPT_POSTFIELDSIZE, static_cast<long>(post.body.size()));
    curl().easy_setopt(easy_, CURLOPT_COPYPOSTFIELDS, post.body.c_str());
    curl().easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
    curl().easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(post.timeout.count()));
    curl().easy_setopt(easy_, CURLOPT_SOCKOPTFUNCTION, watch_connection);
    curl().easy_setopt(easy_, CURLOPT_WRITEFUNCTION, write);
    curl().easy_setopt(easy_, CURLOPT_WRITEDATA, this);
    curl().easy_setopt(easy_, CURLOPT_ERRORBUFFER, message_);
    if (!post.ca_file.empty()) curl().easy_setopt(easy_, CURLOPT_CAINFO, post.ca_file.c_str());
    curl().multi_add_handle(multi_, easy_);
  }
  ~Request() {
    curl().multi_remove_handle(multi_, easy_);
    curl().easy_cleanup(easy_);
    curl().slist_free_all(headers_);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  bool is_ended() const { return is_ended_; }  // by `take`
  int64_t status() const {
    long status = 0;
    curl().easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  // Whether bytes of it have left.
  bool is_sent() const {
    curl_off_t sent = 0;
    long size = 0;
    curl().easy_getinfo(easy_, CURLINFO_SIZE_UPLOAD_T, &sent);
    curl().easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &size);
    return sent > 0 || size > 0;
  }
  void check(CURLcode code) const {
    if (code == CURLE_OK || is_ended_) return;
    const std::string text = message_[0] != 0 ? message_ : curl().easy_strerror(code);
    const auto kind =
        is_of_certificate(code) ? HttpError::Kind::kCertificate : HttpError::Kind::kNoAnswer;
    throw HttpError(kind, !is_before_sending(code), printable_start(text, 200));
  }

 private:
  static size_t write(char* bytes, size_t, size_t size, void* request) {
    auto* const self = static_cast<Request*>(request);
    if (self->is_ended_) return 0;
    self->is_ended_ = !self->take_({bytes, size});
    return self->is_ended_ ? 0 : size;
  }

  void* multi_;
  std::function<bool(std::string_view)> take_;
  CURL* easy_;
  curl_slist* headers_ = nullptr;
  char message_[CURL_ERROR_SIZE] = {};
  bool is_ended_ = false;
};

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

bool HttpClient::perform(Request& request, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    if (is_interrupted_) {
      throw HttpError(HttpError::Kind::kInterrupted, request.is_sent(), "interrupted");
    }
    int running = 0;
    curl().multi_perform(multi_, &running);
    int queued = 0;
    while (const CURLMsg* message = curl().multi_info_read(multi_, &queued)) {
      if (message->msg != CURLMSG_DONE) continue;
      request.check(message->data.result);
      return true;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    curl().multi_poll(multi_, nullptr, 0, static_cast<int>(std::min<int64_t>(left, 1000)), nullptr);
  }
}

HttpReply HttpClient::post(const HttpPost& post) {
  HttpReply reply;
  Request request(multi_, post, [&reply](std::string_view bytes) {
    if (reply.body.size() + bytes.size() > kMaxBytes) return false;
    reply.body += bytes;
    return true;
  });
  if (!perform(request, post.timeout)) {
    throw HttpError(HttpError::Kind::kNoAnswer, request.is_sent(),
                    fmt::format("no answer within {:.1f} s",
                                std::chrono::duration<double>(post.timeout).count()));
  }
  if (request.is_ended()) throw HttpError(HttpError::Kind::kTooLarge, true, kTooLarge);
  reply.status = request.status();
  return reply;
}

int64_t HttpClient::stream(const HttpPost& post,
                           const std::function<bool(std::string_view)>& on_line) {
  std::string line;
  bool is_too_large = false;
  Request request(multi_, post, [&](std::string_view bytes) {
    for (size_t end; (end = bytes.find('\n')) != bytes.npos; bytes.remove_prefix(end + 1)) {
      line += bytes.substr(0, end);
      if (!line.empty() && !on_line(line)) return false;
      line.clear();
    }
    line += bytes;
    is_too_large = line.size() > kMaxBytes;
    return !is_too_large;
  });
  const bool has_ended = perform(request, post.timeout);
  if (is_too_large) throw HttpError(HttpError::Kind::kTooLarge, true, kTooLarge);
  if (has_ended && !request.is_ended() && !line.empty()) on_line(line);
  return request.status();
}

void HttpClient::interrupt() {
  is_interrupted_ = true;
  curl().multi_wakeup(multi_);
}

}  // namespace fovea::elastic
