// The one file that sees Gloo's headers. They are Debian's and older than the Gloo within libtorch,
// so nothing of Gloo is made or called here but through c10d, whose code is libtorch's own.
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "fovea/parallel/process_group.h"

namespace fovea::parallel {
namespace {

// Network interface by name, as for all users of c10d; else the address that others reach.
std::shared_ptr<::gloo::transport::Device> device_of(const std::string& address) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(address);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo(const KeyStore& store, const GroupOptions& options) {
  // Longer than our own patience, which knows whom to name.
  const auto timeout = options.timeout + std::chrono::seconds(60);
  auto gloo = c10d::ProcessGroupGloo::Options::create(timeout);
  gloo->devices = {device_of(options.address)};
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store.handle(), static_cast<int>(options.rank),
                                                     static_cast<int>(options.size), gloo);
}

}  // namespace fovea::parallel
