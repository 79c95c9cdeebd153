// HTTP with a limit on everything, on libcurl.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/net/header_lines.h"

namespace fovea::net {

// No answer. `is_sent`: the request may have arrived, so that what it asks for may have happened.
class HttpError : public Error {
 public:
  enum class Kind { kNoAnswer, kCertificate, kInterrupted, kTooLarge };
  HttpError(Kind kind, bool is_sent, const std::string& message)
      : Error(message), kind_(kind), is_sent_(is_sent) {}
  Kind kind() const { return kind_; }
  bool is_sent() const { return is_sent_; }

 private:
  Kind kind_;
  bool is_sent_;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url{};
  HttpHeaders headers{};
  std::string body{};
  std::string file{};     // its content is the body instead
  std::string ca_file{};  // who signs for https; empty: whom the system trusts
  // Of all, the answer's last byte included; 0: none, and then connecting may take 30 s.
  std::chrono::milliseconds timeout{5000};
  // There is no answer, either, where fewer bytes a second than this arrive for so long; 0: as few
  // as it likes.
  int64_t min_bytes_per_second = 0;
  std::chrono::seconds slow_for{30};
  // A host that says nothing is asked whether it is there, three times at this distance.
  std::chrono::seconds probe_after{20};
  // http_proxy, https_proxy, no_proxy.
  bool uses_environment_proxy = false;
  size_t max_body_bytes = size_t{64} << 20;  // of an answer that is kept
};

struct HttpReply {
  int64_t status = 0;
  HttpHeaders headers{};  // of the last answer; names in lower case
  std::string body{};
  // Where a redirect leads, whole; empty: it is none. Nobody follows it unasked: who has sent a
  // secret knows to whom it may go.
  std::string redirect_url{};

  // The first of that name; empty: there is none.
  std::string header(std::string_view name) const;
};

// Connections that are kept for the next request. One thread at a time asks; any other one may
// interrupt.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Throws HttpError: no whole answer within the request's limits; DataError: its file cannot be
  // read. So do the others.
  HttpReply perform(const HttpRequest& request);

  // The body goes to on_bytes as it comes, with status and headers, until that says false; what it
  // throws comes out of here.
  using OnBytes = std::function<bool(const HttpReply& head, std::string_view bytes)>;
  HttpReply download(const HttpRequest& request, const OnBytes& on_bytes);

  // An answer that goes on: each line as it comes, to its end, to the timeout, or until on_line
  // says false. Returns the status.
  int64_t stream(const HttpRequest& request, const std::function<bool(std::string_view)>& on_line);

  // Ends the request that is under way, and each later one, with HttpError kInterrupted.
  void interrupt();

 private:
  class Transfer;
  // False: its time is over. Throws HttpError.
  bool run(Transfer& transfer, std::chrono::milliseconds timeout);

  void* multi_;  // CURLM
  std::atomic<bool> is_interrupted_ = false;
};

}  // namespace fovea::net
