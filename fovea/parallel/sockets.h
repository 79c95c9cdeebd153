// TCP with a deadline on everything that can wait for somebody else.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/parallel/interrupt.h"

namespace fovea::parallel {

using Deadline = std::chrono::steady_clock::time_point;

// What the network, or who is at its other end, did not do.
class SocketError : public Error {
 public:
  enum class Kind { kUnreachable, kClosed, kSilent, kInterrupted };
  SocketError(Kind kind, const std::string& message) : Error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

class Socket {
 public:
  // interrupt: ends its waits; null: their deadlines alone do.
  explicit Socket(int file = -1, std::shared_ptr<const Interrupt> interrupt = nullptr)
      : file_(file), interrupt_(std::move(interrupt)) {}
  ~Socket();
  Socket(Socket&& other) noexcept
      : file_(std::exchange(other.file_, -1)), interrupt_(std::move(other.interrupt_)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(interrupt_, other.interrupt_);
    return *this;
  }

  int file() const { return file_; }
  // The port that it is bound to.
  int64_t port() const;

  // The same, whose waits this ends as well.
  Socket interrupted_by(std::shared_ptr<const Interrupt> interrupt) && {
    interrupt_ = std::move(interrupt);
    return std::move(*this);
  }
  // Another one for the same connection, or the same place to listen at.
  Socket duplicate() const;

  // Throw SocketError: closed by the other end, silent until the deadline, or interrupted.
  void send(std::string_view bytes, Deadline deadline) const;
  std::string receive(size_t size, Deadline deadline) const;
  void receive_into(void* bytes, size_t size, Deadline deadline) const;
  // A socket that listens: the next one to come. Throws SocketError.
  Socket accept(Deadline deadline) const;

 private:
  int file_;
  std::shared_ptr<const Interrupt> interrupt_;
};

struct NetAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  bool is_loopback() const;
  int64_t port() const;      // 0: of no network that has ports
  std::string text() const;  // numbers, without the port
};

// The addresses of a host, by the names service that may take its time. Throws SocketError.
std::vector<NetAddress> resolve(const std::string& host, int64_t port, Deadline deadline,
                                const Interrupt* interrupt = nullptr);

// The address of the interface through which this machine reaches `host`: a host's own name may
// stand for its loopback. No packet is sent. Throws SocketError.
std::string address_towards(const std::string& host, int64_t port, Deadline deadline);

// Throws SocketError. interrupt: of this and of all that the socket waits for; may be null.
Socket connect_to(const NetAddress& address, Deadline deadline,
                  std::shared_ptr<const Interrupt> interrupt = nullptr);

// Sockets that listen where `host` names this machine, and nowhere else. is_for_others: other
// machines are to come; where the host's addresses are loopback alone (a machine's own name often
// stands for it) or none of this machine's (a container's host), all its interfaces listen.
// port 0: any free one, of a host with one address. Throws RankError: the port is in use.
std::vector<Socket> listen_at(const std::string& host, int64_t port, bool is_for_others,
                              Deadline deadline);

}  // namespace fovea::parallel
