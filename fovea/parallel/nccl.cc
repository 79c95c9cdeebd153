#include "fovea/parallel/nccl.h"

#include <dlfcn.h>

#include "fovea/parallel/cuda/nccl_module.h"
#include "fovea/parallel/process_group.h"

namespace fovea::parallel {
namespace {

auto* find_nccl() {
  return reinterpret_cast<decltype(&fovea_make_nccl)>(dlsym(RTLD_DEFAULT, "fovea_make_nccl"));
}

}  // namespace

bool has_nccl() { return find_nccl() != nullptr; }

std::shared_ptr<const DeviceBackend> nccl_backend(const Launch& launch, int num_devices) {
  if (launch.local_size > num_devices) return nullptr;
  auto* const make = find_nccl();
  if (make == nullptr) return nullptr;
  return std::make_shared<const DeviceBackend>(
      DeviceBackend{.make = [make](const KeyStore& store, const GroupOptions& options) {
        // Longer than our own patience, which knows whom to name.
        const auto timeout = options.timeout + std::chrono::seconds(60);
        return c10::intrusive_ptr<c10d::Backend>::reclaim(
            make(store.under("nccl").handle().get(), static_cast<int>(options.rank),
                 static_cast<int>(options.size), timeout.count()));
      }});
}

}  // namespace fovea::parallel
