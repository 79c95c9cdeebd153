// One request on a handle of libcurl.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/core/input_file.h"
#include "fovea/net/curl_library.h"
#include "fovea/net/http.h"

namespace fovea::net {

// Added to `multi` while it lives. The answer's body goes to on_bytes, which says false to end it.
class HttpClient::Transfer {
 public:
  // Throws Error: a header of several lines; DataError: the file to send is not there.
  Transfer(void* multi, const HttpRequest& request, OnBytes on_bytes);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  bool is_ended() const { return is_ended_; }  // by on_bytes
  // Whether bytes of it have left.
  bool is_sent() const;
  // Throws HttpError, or what on_bytes or the file threw; nothing where on_bytes ended it.
  void check(CURLcode code) const;
  // Without a body.
  HttpReply reply() const;

 private:
  void set_limits(const HttpRequest& request);
  void set_headers(const HttpRequest& request);
  void set_body(const HttpRequest& request);
  int64_t status() const;
  // What `call` returns; of what it throws, `failed`, for nothing is thrown through libcurl.
  template <class Call>
  size_t guarded(size_t failed, const Call& call);

  static int watch_connection(void* transfer, curl_socket_t socket, curlsocktype);
  static size_t write(char* bytes, size_t, size_t size, void* transfer);
  static size_t write_header(char* bytes, size_t, size_t size, void* transfer);
  static size_t read(char* bytes, size_t, size_t size, void* transfer);
  static int seek(void* transfer, curl_off_t offset, int origin);

  void* multi_;
  OnBytes on_bytes_;
  CURL* easy_;
  curl_slist* header_list_ = nullptr;
  HeaderLines header_lines_;
  HttpReply head_;
  std::optional<InputFile> file_;
  uint64_t file_offset_ = 0;
  int probe_seconds_;
  char message_[CURL_ERROR_SIZE] = {};
  bool is_ended_ = false, has_too_many_headers_ = false;
  std::exception_ptr fault_;
};

}  // namespace fovea::net
