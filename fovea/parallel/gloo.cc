// The one file that sees Gloo's headers. They are Debian's and older than the Gloo within libtorch,
// so nothing of Gloo is made or called here but through c10d, whose code is libtorch's own.
#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "fovea/parallel/process_group.h"
#include "fovea/parallel/rank_error.h"

namespace fovea::parallel {
namespace {

// c10d keeps the last operations of a process for its own debugging, in a map to which threads that
// exchange at the same time add without a lock, which ends the process now and then. It reads this
// when the first operation comes, and here nobody has threads yet.
[[maybe_unused]] const int no_flight_recorder =
    setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);

// Network interface by name, as for all users of c10d; else the address that others reach.
std::shared_ptr<::gloo::transport::Device> device_of(const std::string& address) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(address);
}

// Each rank tells where it listens.
void exchange_places(KeyStore store, const GroupOptions& options, GlooSockets& sockets) {
  const auto key_of = [](int64_t rank) { return "listens/" + std::to_string(rank); };
  store.set(key_of(options.rank), sockets.text());
  for (int64_t rank = 0; rank < options.size; ++rank) {
    if (rank == options.rank) continue;
    if (!store.wait_for({key_of(rank)}, options.timeout).empty()) {
      throw RankError(fmt::format(
          "rank {} of a group of {} did not come to exchange tensors by Gloo within {:.0f} s "
          "(launch.timeout); look at its log",
          rank, options.size, std::chrono::duration<double>(options.timeout).count()));
    }
    sockets.add_peer(store.find(key_of(rank)).value_or(""));
  }
}

// An interrupt ends the making of a group, which waits for the other ranks on connections that come
// one by one.
class EndOfMaking {
 public:
  EndOfMaking(const GroupOptions& options, const GlooSockets& sockets) {
    if (!options.interrupt) return;
    hook_.emplace(options.interrupt->on_fire([this, &sockets, maker = std::this_thread::get_id()] {
      if (std::this_thread::get_id() == maker) return;  // it has fired before
      while (!is_made_) {
        sockets.shut_down();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }));
    if (!options.interrupt->has_fired()) return;
    is_made_ = true;
    throw RankError(options.interrupt->why());
  }
  ~EndOfMaking() { is_made_ = true; }
  EndOfMaking(const EndOfMaking&) = delete;
  EndOfMaking& operator=(const EndOfMaking&) = delete;

 private:
  std::atomic<bool> is_made_ = false;
  std::optional<Interrupt::Hook> hook_;
};

}  // namespace

GlooGroup make_gloo(const KeyStore& store, const GroupOptions& options) {
  const auto before = listening_places();
  // Longer than our own patience, which knows whom to name.
  const auto timeout = options.timeout + std::chrono::seconds(60);
  auto gloo = c10d::ProcessGroupGloo::Options::create(timeout);
  gloo->devices = {device_of(options.address)};
  auto sockets = std::make_shared<GlooSockets>(before);
  exchange_places(store, options, *sockets);
  const EndOfMaking end(options, *sockets);
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
      store.handle(), static_cast<int>(options.rank), static_cast<int>(options.size), gloo);
  sockets->remember_connections();
  return {.backend = std::move(backend), .sockets = std::move(sockets)};
}

}  // namespace fovea::parallel
