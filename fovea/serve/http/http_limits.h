// How much of a server one client may take: of its memory, its time and its connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace fovea::serve {

struct HttpLimits {
  size_t header_bytes = size_t{16} << 10;
  size_t body_bytes = size_t{128} << 20;      // as it comes, and again when it is expanded
  size_t all_bodies_bytes = size_t{1} << 30;  // of all requests that are there at one time
  int64_t max_connections = 512;
  std::chrono::milliseconds header_time{10'000};  // from a request's first byte to its last header
  std::chrono::milliseconds body_time{30'000};    // beside what slowest_rate gives
  std::chrono::milliseconds idle_time{75'000};    // between two requests of a connection
  std::chrono::milliseconds answer_time{60'000};  // from a whole request to its answer
  std::chrono::milliseconds linger_time{2'000};   // for a client to read why it was refused
  // What is told to stop waits so long for the next request of a connection that is open.
  std::chrono::milliseconds drain_idle_time{300};
  int64_t slowest_rate = int64_t{64} << 10;  // bytes a second, of a long body or answer

  // How long `bytes` of a body or an answer may take.
  std::chrono::milliseconds transfer_time(size_t bytes) const {
    return body_time + std::chrono::milliseconds(static_cast<int64_t>(bytes) * 1000 / slowest_rate);
  }
};

}  // namespace fovea::serve
