// HTTP with a deadline on everything, on libcurl.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::elastic {

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

struct HttpPost {
  std::string url;
  std::string body{};
  std::string authorization{};  // a header; empty: none
  std::string ca_file{};        // who signs for https; empty: whom the system trusts
  std::chrono::milliseconds timeout{5000};
};

struct HttpReply {
  int64_t status = 0;
  std::string body{};
};

// Connections that are kept for the next request. One thread at a time asks; any other one may
// interrupt. Proxies of the environment are not asked: what is controlled is on this network.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Throws HttpError: no whole answer within post.timeout, or one of more than 64 MiB.
  HttpReply post(const HttpPost& post);

  // The same of an answer that goes on: each line as it comes, to its end, to the timeout, or until
  // on_line says false. Returns the status. Throws HttpError where the connection ends otherwise.
  int64_t stream(const HttpPost& post, const std::function<bool(std::string_view)>& on_line);

  // Ends the request that is under way, and each later one, with HttpError kInterrupted.
  void interrupt();

 private:
  class Request;
  // False: its time is over. Throws HttpError.
  bool perform(Request& request, std::chrono::milliseconds timeout);

  void* multi_;  // CURLM
  std::atomic<bool> is_interrupted_ = false;
};

}  // namespace fovea::elastic
