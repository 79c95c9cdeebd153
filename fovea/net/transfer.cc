#include "fovea/net/transfer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>

#include "fovea/core/printable.h"
#include "fovea/core/text.h"

namespace fovea::net {
namespace {

const CurlLibrary& curl() { return curl_library(); }

bool is_of_certificate(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR;
}

bool is_before_sending(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
         code == CURLE_COULDNT_CONNECT || code == CURLE_SSL_CONNECT_ERROR ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
         is_of_certificate(code);
}

}  // namespace

HttpClient::Transfer::Transfer(void* multi, const HttpRequest& request, OnBytes on_bytes)
    : multi_(multi),
      on_bytes_(std::move(on_bytes)),
      easy_(nullptr),
      probe_seconds_(static_cast<int>(std::max<int64_t>(request.probe_after.count(), 1))) {
  for (const auto& [name, value] : request.headers) {
    if ((name + value).find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos) continue;
    fail("header '{}' has a line end or a zero in it; expected one line", printable_start(name));
  }
  if (!request.file.empty()) file_.emplace(request.file);
  easy_ = curl().easy_init();
  if (easy_ == nullptr) fail("libcurl has no memory");
  curl().easy_setopt(easy_, CURLOPT_URL, request.url.c_str());
  curl().easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl().easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  // A request that ends early does not wait for a name server that says nothing.
  curl().easy_setopt(easy_, CURLOPT_QUICK_EXIT, 1L);
  if (!request.uses_environment_proxy) curl().easy_setopt(easy_, CURLOPT_PROXY, "");
  if (!request.ca_file.empty()) {
    curl().easy_setopt(easy_, CURLOPT_CAINFO, request.ca_file.c_str());
  }
  curl().easy_setopt(easy_, CURLOPT_ERRORBUFFER, message_);
  curl().easy_setopt(easy_, CURLOPT_WRITEFUNCTION, write);
  curl().easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  curl().easy_setopt(easy_, CURLOPT_HEADERFUNCTION, write_header);
  curl().easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  set_limits(request);
  set_body(request);
  set_headers(request);
  curl().multi_add_handle(multi_, easy_);
}

HttpClient::Transfer::~Transfer() {
  curl().multi_remove_handle(multi_, easy_);
  curl().easy_cleanup(easy_);
  curl().slist_free_all(header_list_);
}

void HttpClient::Transfer::set_limits(const HttpRequest& request) {
  const auto timeout = request.timeout.count();
  curl().easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS,
                     timeout > 0 ? static_cast<long>(timeout) : 30000L);
  curl().easy_setopt(easy_, CURLOPT_LOW_SPEED_LIMIT,
                     static_cast<long>(request.min_bytes_per_second));
  curl().easy_setopt(easy_, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.slow_for.count()));
  curl().easy_setopt(easy_, CURLOPT_SOCKOPTFUNCTION, watch_connection);
  curl().easy_setopt(easy_, CURLOPT_SOCKOPTDATA, this);
}

void HttpClient::Transfer::set_body(const HttpRequest& request) {
  if (file_) {
    curl().easy_setopt(easy_, CURLOPT_UPLOAD, 1L);
    curl().easy_setopt(easy_, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(file_->size()));
    curl().easy_setopt(easy_, CURLOPT_READFUNCTION, read);
    curl().easy_setopt(easy_, CURLOPT_READDATA, this);
    curl().easy_setopt(easy_, CURLOPT_SEEKFUNCTION, seek);
    curl().easy_setopt(easy_, CURLOPT_SEEKDATA, this);
  } else if (request.method == "HEAD") {
    curl().easy_setopt(easy_, CURLOPT_NOBODY, 1L);
    return;
  } else if (request.method != "GET" || !request.body.empty()) {
    curl().easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
    curl().easy_setopt(easy_, CURLOPT_COPYPOSTFIELDS, request.body.c_str());
  }
  curl().easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

void HttpClient::Transfer::set_headers(const HttpRequest& request) {
  bool has_type = false;
  for (const auto& [name, value] : request.headers) {
    has_type = has_type || lowered(name) == "content-type";
    header_list_ = curl().slist_append(header_list_,
                                       (value.empty() ? name + ";" : name + ": " + value).c_str());
  }
  // Of itself libcurl says that a body is a form, and waits to be asked for it.
  if (!has_type) header_list_ = curl().slist_append(header_list_, "Content-Type:");
  header_list_ = curl().slist_append(header_list_, "Expect:");
  curl().easy_setopt(easy_, CURLOPT_HTTPHEADER, header_list_);
}

int64_t HttpClient::Transfer::status() const {
  long status = 0;
  curl().easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

bool HttpClient::Transfer::is_sent() const {
  curl_off_t sent = 0;
  long size = 0;
  curl().easy_getinfo(easy_, CURLINFO_SIZE_UPLOAD_T, &sent);
  curl().easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &size);
  return sent > 0 || size > 0;
}

void HttpClient::Transfer::check(CURLcode code) const {
  if (fault_) std::rethrow_exception(fault_);
  if (has_too_many_headers_) {
    throw HttpError(HttpError::Kind::kTooLarge, true,
                    "an answer with more than 256 KiB of headers");
  }
  if (code == CURLE_OK || is_ended_) return;
  const std::string text = message_[0] != 0 ? message_ : curl().easy_strerror(code);
  const auto kind =
      is_of_certificate(code) ? HttpError::Kind::kCertificate : HttpError::Kind::kNoAnswer;
  throw HttpError(kind, !is_before_sending(code), printable_start(text, 200));
}

HttpReply HttpClient::Transfer::reply() const {
  const char* url = nullptr;
  curl().easy_getinfo(easy_, CURLINFO_REDIRECT_URL, &url);
  return {.status = status(),
          .headers = header_lines_.headers(),
          .redirect_url = url != nullptr ? url : ""};
}

template <class Call>
size_t HttpClient::Transfer::guarded(size_t failed, const Call& call) {
  try {
    return call();
  } catch (...) {
    fault_ = std::current_exception();
    return failed;
  }
}

// A host that is gone says nothing: an answer that goes on would wait for it for hours.
int HttpClient::Transfer::watch_connection(void* transfer, curl_socket_t socket, curlsocktype) {
  const int on = 1, count = 3, seconds = static_cast<Transfer*>(transfer)->probe_seconds_;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  return CURL_SOCKOPT_OK;
}

size_t HttpClient::Transfer::write(char* bytes, size_t, size_t size, void* transfer) {
  auto& self = *static_cast<Transfer*>(transfer);
  if (self.is_ended_) return 0;
  return self.guarded(0, [&] {
    if (self.head_.status == 0) {
      self.head_.status = self.status();
      self.head_.headers = self.header_lines_.headers();
    }
    self.is_ended_ = !self.on_bytes_(self.head_, {bytes, size});
    return self.is_ended_ ? 0 : size;
  });
}

size_t HttpClient::Transfer::write_header(char* bytes, size_t, size_t size, void* transfer) {
  auto& self = *static_cast<Transfer*>(transfer);
  return self.guarded(0, [&] {
    self.has_too_many_headers_ = !self.header_lines_.take({bytes, size});
    return self.has_too_many_headers_ ? 0 : size;
  });
}

size_t HttpClient::Transfer::read(char* bytes, size_t, size_t size, void* transfer) {
  auto& self = *static_cast<Transfer*>(transfer);
  return self.guarded(CURL_READFUNC_ABORT, [&] {
    // No more than was promised, where the file has grown.
    const auto left = self.file_->size() - self.file_offset_;
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(size, left));
    self.file_->read(self.file_offset_, {reinterpret_cast<uint8_t*>(bytes), wanted});
    self.file_offset_ += wanted;
    return wanted;
  });
}

// A kept connection that turns out to be closed is asked again on another, from the start.
int HttpClient::Transfer::seek(void* transfer, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Transfer*>(transfer)->file_offset_ = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

}  // namespace fovea::net
