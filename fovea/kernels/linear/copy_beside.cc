#include "fovea/kernels/linear/copy_beside.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

#include "fovea/core/error.h"

namespace fovea::kernels {
namespace {

// Of each device one, for all threads: copies share one way to it anyhow.
c10::Stream copying_stream(const c10::impl::VirtualGuardImpl& guard, c10::Device device) {
  static std::mutex mutex;
  static auto* streams = new std::map<c10::DeviceIndex, c10::Stream>;  // outlives every thread
  const std::lock_guard lock(mutex);
  const auto found = streams->find(device.index());
  if (found != streams->end()) return found->second;
  return streams->emplace(device.index(), guard.getStreamFromGlobalPool(device)).first->second;
}

}  // namespace

at::Tensor copy_beside(const at::Tensor& host, c10::Device device) {
  FOVEA_CHECK(host.is_cpu() && host.is_contiguous(),
              "copy_beside: {}; expected contiguous on a CPU", host.toString());
  if (device.is_cpu()) return host;
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (!device.has_index()) device = guard.getDevice();
  const auto current = guard.getStream(device), beside = copying_stream(guard, device);
  at::Tensor there;
  c10::Event copied(device.type());
  {
    const c10::StreamGuard on_stream(beside);
    there = host.pin_memory().to(device, /*non_blocking=*/true);
    copied.record(beside);
  }
  copied.block(current);
  there.record_stream(current);
  return there;
}

}  // namespace fovea::kernels
