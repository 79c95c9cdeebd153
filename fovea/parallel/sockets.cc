#include "fovea/parallel/sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "fovea/core/host_name.h"
#include "fovea/parallel/rank_error.h"

namespace fovea::parallel {
namespace {

using Kind = SocketError::Kind;
using SocketClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kSocketFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;

milliseconds left_until(Deadline deadline) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - SocketClock::now()));
}

// Looks once more when the time is over: a process that was stopped meanwhile finds what came.
void wait_for(int file, short what, Deadline deadline, const Interrupt* interrupt = nullptr) {
  std::array<pollfd, 2> waiting = {
      {{.fd = file, .events = what, .revents = 0},
       {.fd = interrupt != nullptr ? interrupt->file() : -1, .events = POLLIN, .revents = 0}}};
  for (;;) {
    if (interrupt != nullptr && interrupt->has_fired()) {
      throw SocketError(Kind::kInterrupted, interrupt->why());
    }
    const auto left = std::min(left_until(deadline), milliseconds(60000));
    const int ready = poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
    if (ready > 0 && waiting[0].revents != 0) return;
    if (ready > 0) continue;
    if (ready < 0 && errno != EINTR) throw SocketError(Kind::kClosed, std::strerror(errno));
    if (left.count() == 0) throw SocketError(Kind::kSilent, "said nothing");
  }
}

void set_option(const Socket& socket, int level, int option) {
  const int on = 1;
  setsockopt(socket.file(), level, option, &on, sizeof on);
}

std::string reason_of_lookup(int code) {
  return code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code);
}

// What a look-up reads and writes; it outlives one that nobody waits for any more.
struct LookUp {
  std::string host, port;
  addrinfo hints{};
  gaicb request{};
  ~LookUp() {
    if (request.ar_result != nullptr) freeaddrinfo(request.ar_result);
  }
};

// -> 0, or the code of an error.
int run_look_up(std::unique_ptr<LookUp>& look_up, Deadline deadline, const Interrupt* interrupt) {
  gaicb* const request = &look_up->request;
  std::array<gaicb*, 1> requests = {request};
  if (const int code = getaddrinfo_a(GAI_NOWAIT, requests.data(), 1, nullptr); code != 0) {
    return code;
  }
  for (;;) {
    const bool is_over = interrupt != nullptr && interrupt->has_fired();
    const auto left = is_over ? milliseconds(0) : std::min(left_until(deadline), milliseconds(200));
    const timespec patience{.tv_sec = left.count() / 1000,
                            .tv_nsec = left.count() % 1000 * 1000000};
    const std::array<const gaicb*, 1> waited_for = {request};
    gai_suspend(waited_for.data(), 1, &patience);
    const int code = gai_error(request);
    if (code != EAI_INPROGRESS) return code;
    if (left.count() > 0) continue;
    if (gai_cancel(request) == EAI_NOTCANCELED) look_up.release();  // under way: it writes there
    return EAI_AGAIN;
  }
}

// -> 0, or errno.
int try_to_listen(const NetAddress& address, bool takes_both, std::vector<Socket>& sockets) {
  Socket socket(::socket(address.bytes.ss_family, SOCK_STREAM | kSocketFlags, 0));
  if (socket.file() < 0) return errno;
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);
  if (address.bytes.ss_family == AF_INET6) {
    const int is_v6_only = takes_both ? 0 : 1;
    setsockopt(socket.file(), IPPROTO_IPV6, IPV6_V6ONLY, &is_v6_only, sizeof is_v6_only);
  }
  const auto* name = reinterpret_cast<const sockaddr*>(&address.bytes);
  if (bind(socket.file(), name, address.size) != 0) return errno;
  if (listen(socket.file(), SOMAXCONN) != 0) return errno;
  sockets.push_back(std::move(socket));
  return 0;
}

NetAddress any_address(sa_family_t family, int64_t port) {
  NetAddress address;
  const auto number = htons(static_cast<uint16_t>(port));
  address.bytes.ss_family = family;
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.bytes)->sin6_port = number;
    address.size = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_port = number;
    address.size = sizeof(sockaddr_in);
  }
  return address;
}

}  // namespace

Socket::~Socket() {
  if (file_ >= 0) close(file_);
}

int64_t Socket::port() const {
  NetAddress own{.bytes = {}, .size = sizeof own.bytes};
  getsockname(file_, reinterpret_cast<sockaddr*>(&own.bytes), &own.size);
  return own.port();
}

Socket Socket::duplicate() const {
  Socket other(fcntl(file_, F_DUPFD_CLOEXEC, 0), interrupt_);
  if (other.file() < 0) throw SocketError(Kind::kClosed, std::strerror(errno));
  return other;
}

void Socket::send(std::string_view bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const auto sent = ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      wait_for(file_, POLLOUT, deadline, interrupt_.get());
    } else if (errno != EINTR) {
      throw SocketError(Kind::kClosed, std::strerror(errno));
    }
  }
}

std::string Socket::receive(size_t size, Deadline deadline) const {
  std::string bytes(size, '\0');
  receive_into(bytes.data(), size, deadline);
  return bytes;
}

void Socket::receive_into(void* bytes, size_t size, Deadline deadline) const {
  for (size_t filled = 0; filled < size;) {
    const auto read = recv(file_, static_cast<char*>(bytes) + filled, size - filled, 0);
    if (read > 0) {
      filled += static_cast<size_t>(read);
    } else if (read == 0) {
      throw SocketError(Kind::kClosed, "closed the connection");
    } else if (errno == EAGAIN) {
      wait_for(file_, POLLIN, deadline, interrupt_.get());
    } else if (errno != EINTR) {
      throw SocketError(Kind::kClosed, std::strerror(errno));
    }
  }
}

Socket Socket::accept(Deadline deadline) const {
  for (;;) {
    Socket came(accept4(file_, nullptr, nullptr, kSocketFlags), interrupt_);
    if (came.file() >= 0) {
      set_option(came, IPPROTO_TCP, TCP_NODELAY);
      return came;
    }
    if (errno == EAGAIN) {
      wait_for(file_, POLLIN, deadline, interrupt_.get());
    } else if (errno != EINTR && errno != ECONNABORTED) {
      throw SocketError(Kind::kClosed, std::strerror(errno));
    }
  }
}

bool NetAddress::is_loopback() const {
  if (bytes.ss_family == AF_INET) {
    const auto number = reinterpret_cast<const sockaddr_in*>(&bytes)->sin_addr.s_addr;
    return ntohl(number) >> 24 == 127;
  }
  const auto& number = reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&number) ||
         (IN6_IS_ADDR_V4MAPPED(&number) && number.s6_addr[12] == 127);
}

int64_t NetAddress::port() const {
  if (bytes.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_port);
  }
  if (bytes.ss_family != AF_INET) return 0;
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bytes)->sin_port);
}

std::string NetAddress::text() const {
  std::array<char, NI_MAXHOST> text{};
  const int code = getnameinfo(reinterpret_cast<const sockaddr*>(&bytes), size, text.data(),
                               text.size(), nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? text.data() : "?";
}

std::vector<NetAddress> resolve(const std::string& host, int64_t port, Deadline deadline,
                                const Interrupt* interrupt) {
  auto look_up = std::make_unique<LookUp>();
  look_up->host = host;
  look_up->port = std::to_string(port);
  look_up->hints.ai_socktype = SOCK_STREAM;
  look_up->hints.ai_flags = AI_NUMERICHOST;
  look_up->request.ar_name = look_up->host.c_str();
  look_up->request.ar_service = look_up->port.c_str();
  look_up->request.ar_request = &look_up->hints;
  // A number is nobody's to look up.
  if (getaddrinfo(look_up->request.ar_name, look_up->request.ar_service, &look_up->hints,
                  &look_up->request.ar_result) != 0) {
    look_up->hints.ai_flags = 0;
    const int code = run_look_up(look_up, deadline, interrupt);
    if (code != 0) {
      throw SocketError(Kind::kUnreachable, "no such host is known: " + reason_of_lookup(code));
    }
  }
  std::vector<NetAddress> addresses;
  for (const auto* found = look_up->request.ar_result; found; found = found->ai_next) {
    NetAddress address{.bytes = {}, .size = found->ai_addrlen};
    std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
    addresses.push_back(address);
  }
  return addresses;
}

std::string address_towards(const std::string& host, int64_t port, Deadline deadline) {
  const auto addresses = resolve(host, port, deadline);
  if (addresses.empty()) return host_name("?");
  const auto& target = addresses.front();
  const Socket socket(::socket(target.bytes.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  NetAddress own{.bytes = {}, .size = sizeof own.bytes};
  if (connect(socket.file(), reinterpret_cast<const sockaddr*>(&target.bytes), target.size) != 0 ||
      getsockname(socket.file(), reinterpret_cast<sockaddr*>(&own.bytes), &own.size) != 0) {
    return host_name("?");
  }
  return own.text();
}

Socket connect_to(const NetAddress& address, Deadline deadline,
                  std::shared_ptr<const Interrupt> interrupt) {
  const auto* const own = interrupt.get();
  Socket socket(::socket(address.bytes.ss_family, SOCK_STREAM | kSocketFlags, 0),
                std::move(interrupt));
  const auto* name = reinterpret_cast<const sockaddr*>(&address.bytes);
  int code = socket.file() < 0 ? errno : 0;
  if (code == 0 && connect(socket.file(), name, address.size) != 0) code = errno;
  if (code == EINPROGRESS) {
    wait_for(socket.file(), POLLOUT, deadline, own);
    socklen_t size = sizeof code;
    getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &code, &size);
  }
  if (code != 0) throw SocketError(Kind::kUnreachable, std::strerror(code));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

std::vector<Socket> listen_at(const std::string& host, int64_t port, bool is_for_others,
                              Deadline deadline) {
  const auto refuse = [&](int code) {
    if (code == EADDRINUSE) {
      throw RankError(fmt::format("port {} of this machine is in use by another program; choose "
                                  "another one with MASTER_PORT",
                                  port),
                      ExitCode::kConfig);
    }
  };
  std::vector<Socket> sockets;
  for (const auto& address : resolve(host, port, deadline)) {
    if (is_for_others && address.is_loopback()) continue;
    refuse(try_to_listen(address, false, sockets));
  }
  if (!sockets.empty()) return sockets;
  int code = try_to_listen(any_address(AF_INET6, port), true, sockets);
  if (code == EAFNOSUPPORT) code = try_to_listen(any_address(AF_INET, port), true, sockets);
  refuse(code);
  if (code != 0) throw SocketError(Kind::kUnreachable, std::strerror(code));
  return sockets;
}

}  // namespace fovea::parallel
