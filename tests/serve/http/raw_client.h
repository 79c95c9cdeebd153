// A client that sends the bytes it is told, as it is told.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace fovea::serve {

struct RawResponse {
  int status = 0;    // 0: the connection ended without one
  std::string head;  // as it came, in lower case but for values
  std::string body;

  bool has(std::string_view line) const { return head.find(line) != std::string::npos; }
};

class RawClient {
 public:
  explicit RawClient(int64_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect");
    }
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  int descriptor() const { return socket_; }
  // False: the other side has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }
  // The next response; of a HEAD request there is no body.
  RawResponse receive(bool has_body = true) {
    while (buffer_.find("\r\n\r\n") == std::string::npos) {
      if (!receive_more()) return {};
    }
    RawResponse response;
    const auto end = buffer_.find("\r\n\r\n") + 4;
    response.head = buffer_.substr(0, end);
    buffer_.erase(0, end);
    response.status = std::atoi(response.head.substr(9, 3).c_str());
    const auto field = response.head.find("\r\nContent-Length: ");
    if (!has_body || field == std::string::npos) return response;
    const auto length = std::strtoull(response.head.c_str() + field + 18, nullptr, 10);
    while (buffer_.size() < length && receive_more()) {
    }
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return response;
  }
  RawResponse ask(std::string_view bytes) {
    send(bytes);
    return receive();
  }
  // All that came, up to `end` or the connection's.
  std::string receive_until(std::string_view end) {
    while (buffer_.find(end) == std::string::npos && receive_more()) {
    }
    return std::exchange(buffer_, {});
  }
  // Whether the other side has closed, waited for; nothing else may come.
  bool is_closed() { return buffer_.empty() && !receive_more(); }

 private:
  bool receive_more() {
    char piece[4096];
    const auto count = recv(socket_, piece, sizeof piece, 0);
    if (count <= 0) return false;
    buffer_.append(piece, static_cast<size_t>(count));
    return true;
  }

  int socket_;
  std::string buffer_;
};

inline std::string get(const std::string& path, const std::string& more = {}) {
  return "GET " + path + " HTTP/1.1\r\nHost: test\r\n" + more + "\r\n";
}
inline std::string post(const std::string& path, const std::string& body,
                        const std::string& more = {}) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         more + "\r\n" + body;
}

}  // namespace fovea::serve
