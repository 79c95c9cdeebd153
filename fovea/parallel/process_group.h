// Communicators over c10d process groups, and the back ends that make them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "fovea/parallel/communicator.h"
#include "fovea/parallel/gloo_sockets.h"
#include "fovea/parallel/host_backend.h"
#include "fovea/parallel/key_store.h"
#include "fovea/parallel/watch.h"

namespace fovea::parallel {

struct GroupOptions {
  int64_t rank = 0;  // within the group
  int64_t size = 1;
  std::string address;  // of this machine, as the other ranks reach it
  std::chrono::milliseconds timeout{0};
  std::string collectives = {};               // as Launch has it
  bool is_world = false;                      // all ranks: what carries their tensors is logged
  std::shared_ptr<Interrupt> interrupt = {};  // ends the making of the group; may be null
};

// For tensors on a device.
struct DeviceBackend {
  std::string device;  // that this rank computes on, of all machines one name
  // Collective over the group.
  std::function<c10::intrusive_ptr<c10d::Backend>(const KeyStore&, const GroupOptions&)> make;
};

// c10d's Gloo, for tensors in host memory, and its connections. Collective over the group.
struct GlooGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::shared_ptr<const GlooSockets> sockets;
};
GlooGroup make_gloo(const KeyStore& store, const GroupOptions& options);

// Starts a collective of a back end of c10d; its tensors have to be there until it is done.
c10::intrusive_ptr<c10d::Work> begin_on(c10d::Backend& backend,
                                        const Communicator::Request& request);

struct Backends {
  std::unique_ptr<HostBackend> host;
  c10::intrusive_ptr<c10d::Backend> device;  // null: other tensors travel through pinned memory
};

// A communicator whose waits end when `watch` hears of a failure, when a rank is silent for too
// long, and after `timeout` at the latest. `watch` outlives it.
std::unique_ptr<Communicator> make_communicator(Backends backends, const GroupOptions& options,
                                                Watch& watch);

}  // namespace fovea::parallel
