// TCP with a deadline on everything that can wait for somebody else.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::parallel {

using Deadline = std::chrono::steady_clock::time_point;

// What the network, or who is at its other end, did not do.
class SocketError : public Error {
 public:
  enum class Kind { kUnreachable, kClosed, kSilent };
  SocketError(Kind kind, const std::string& message) : Error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

class Socket {
 public:
  explicit Socket(int file = -1) : file_(file) {}
  ~Socket();
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }

  int file() const { return file_; }
  // The port that it is bound to.
  int64_t port() const;

  // Throw SocketError: closed by the other end, or silent until the deadline.
  void send(std::string_view bytes, Deadline deadline) const;
  std::string receive(size_t size, Deadline deadline) const;

 private:
  int file_;
};

struct NetAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  bool is_loopback() const;
  std::string text() const;  // numbers, without the port
};

// The addresses of a host, by the names service that may take its time. Throws SocketError.
std::vector<NetAddress> resolve(const std::string& host, int64_t port, Deadline deadline);

// Throws SocketError.
Socket connect_to(const NetAddress& address, Deadline deadline);

// Sockets that listen where `host` names this machine, and nowhere else. is_for_others: other
// machines are to come; where the host's addresses are loopback alone (a machine's own name often
// stands for it) or none of this machine's (a container's host), all its interfaces listen.
// port 0: any free one, of a host with one address. Throws RankError: the port is in use.
std::vector<Socket> listen_at(const std::string& host, int64_t port, bool is_for_others,
                              Deadline deadline);

}  // namespace fovea::parallel
