#include "fovea/parallel/gloo_sockets.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "fovea/core/parse_number.h"

namespace fovea::parallel {
namespace {

using NameOfSocket = int (*)(int, sockaddr*, socklen_t*);

// Its own address, or that of the other end; of size 0 where it has none.
NetAddress address_by(NameOfSocket name, int file) {
  NetAddress address{.bytes = {}, .size = sizeof address.bytes};
  if (name(file, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0) {
    address.size = 0;
  }
  return address;
}

std::string place_of(const NetAddress& address) {
  return address.size == 0 ? "" : fmt::format("{}/{}", address.text(), address.port());
}

bool is_listening(int file) {
  int answer = 0;
  socklen_t size = sizeof answer;
  return getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &answer, &size) == 0 && answer != 0;
}

// Calls body(file) with each open file of this process that may be a socket.
template <class Body>
void for_each_file(Body body) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    if (const auto file = parse_number<int>(entry.path().filename().string())) body(*file);
  }
}

bool is_in(const std::vector<std::string>& places, const std::string& place) {
  return std::find(places.begin(), places.end(), place) != places.end();
}

}  // namespace

std::vector<NetAddress> listening_places() {
  std::vector<NetAddress> places;
  for_each_file([&](int file) {
    if (!is_listening(file)) return;
    const auto address = address_by(getsockname, file);
    if (address.port() > 0) places.push_back(address);
  });
  return places;
}

GlooSockets::GlooSockets(const std::vector<NetAddress>& before) {
  std::vector<std::string> known;
  for (const auto& address : before) known.push_back(place_of(address));
  for (const auto& address : listening_places()) {
    const auto place = place_of(address);
    if (!is_in(known, place)) own_.push_back(place);
  }
}

std::string GlooSockets::text() const { return fmt::format("{}", fmt::join(own_, " ")); }

void GlooSockets::add_peer(const std::string& text) {
  std::istringstream words(text);
  for (std::string place; words >> place;) peers_.push_back(place);
}

template <class Body>
void GlooSockets::for_each_connection(Body body) const {
  for_each_file([&](int file) {
    // A second name for it: what it stands for is then the same until the end.
    const Socket socket(fcntl(file, F_DUPFD_CLOEXEC, 0));
    if (socket.file() < 0 || is_listening(socket.file())) return;
    const auto own = place_of(address_by(getsockname, socket.file()));
    const auto peer = place_of(address_by(getpeername, socket.file()));
    if (is_in(own_, own) || is_in(peers_, peer)) body(socket, own + " " + peer);
  });
}

void GlooSockets::shut_down() const {
  for_each_connection(
      [](const Socket& socket, const std::string&) { ::shutdown(socket.file(), SHUT_RDWR); });
}

// Each once: another thread that looks for them has second names for them, too.
size_t GlooSockets::num_connections() const {
  std::set<std::string> ends;
  for_each_connection([&](const Socket&, const std::string& both) { ends.insert(both); });
  return ends.size();
}

void GlooSockets::remember_connections() { num_made_ = num_connections(); }

bool GlooSockets::has_lost_one() const { return num_connections() < num_made_; }

}  // namespace fovea::parallel
