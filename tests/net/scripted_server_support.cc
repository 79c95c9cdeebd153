#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "tests/net/scripted_server.h"

namespace fovea::net {
namespace {

size_t promised_length(const std::string& head) {
  constexpr std::string_view kName = "Content-Length: ";
  const auto at = head.find(kName);
  return at == head.npos ? 0 : std::stoul(head.substr(at + kName.size()));
}

// Empty: nobody has asked.
std::string read_request(int connection) {
  std::string request;
  char buffer[4096];
  for (;;) {
    const auto end = request.find("\r\n\r\n");
    if (end != request.npos &&
        request.size() - (end + 4) >= promised_length(request.substr(0, end + 2)))
      return request;
    const auto got = recv(connection, buffer, sizeof buffer, 0);
    if (got <= 0) return {};
    request.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

ScriptedServer::ScriptedServer(Answer answer)
    : answer_(std::move(answer)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, generic, size) != 0 || listen(listener_, 8) != 0 ||
      getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("no port of 127.0.0.1 to listen at");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

ScriptedServer::~ScriptedServer() {
  shutdown(listener_, SHUT_RDWR);  // ends accept
  thread_.join();
  close(listener_);
}

std::vector<std::string> ScriptedServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void ScriptedServer::serve() {
  for (int connection; (connection = accept(listener_, nullptr, nullptr)) >= 0;) {
    const auto request = read_request(connection);
    if (!request.empty()) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      std::string answer = answer_(request);
      for (std::string_view left = answer; !left.empty();) {
        const auto sent = send(connection, left.data(), left.size(), MSG_NOSIGNAL);
        if (sent <= 0) break;
        left.remove_prefix(static_cast<size_t>(sent));
      }
    }
    shutdown(connection, SHUT_WR);
    char ignored[256];
    while (recv(connection, ignored, sizeof ignored, 0) > 0) {
    }
    close(connection);
  }
}

std::string whole_answer(std::string_view status, std::string_view headers, std::string_view body) {
  std::string answer = "HTTP/1.1 ";
  answer.append(status).append("\r\n").append(headers);
  answer += "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n";
  return answer.append(body);
}

}  // namespace fovea::net
