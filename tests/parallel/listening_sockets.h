// Where this process can be reached from the network.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace fovea::parallel::testing {

// The next one to come, of a socket that does not wait itself.
inline int accept_one(int listener) {
  pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
  poll(&waiting, 1, 30000);
  return accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

// "0100007F" -> "127.0.0.1": words in hexadecimal, as the machine has them.
inline std::string address_of(const std::string& words) {
  std::array<uint32_t, 4> bytes{};
  for (size_t i = 0; i < words.size() / 8; ++i) {
    bytes[i] = static_cast<uint32_t>(std::stoul(words.substr(8 * i, 8), nullptr, 16));
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(words.size() > 8 ? AF_INET6 : AF_INET, bytes.data(), text.data(), text.size());
  return text.data();
}

// Addresses at which this process listens, at one port or (0) at any.
inline std::vector<std::string> listening_addresses(int64_t port = 0) {
  std::set<std::string> own;  // "socket:[inode]"
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    own.insert(std::filesystem::read_symlink(entry.path(), error).string());
  }
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);  // of headings
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          timeout >> inode;
      if (state != "0A" || !own.contains("socket:[" + inode + "]")) continue;
      const auto colon = local.find(':');
      if (port != 0 && std::stol(local.substr(colon + 1), nullptr, 16) != port) continue;
      addresses.push_back(address_of(local.substr(0, colon)));
    }
  }
  return addresses;
}

}  // namespace fovea::parallel::testing
