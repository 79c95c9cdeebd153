#include "fovea/parallel/nccl.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "fovea/kernels/loaded_function.h"
#include "fovea/parallel/cuda/nccl_module.h"
#include "fovea/parallel/process_group.h"

namespace fovea::parallel {

using kernels::loaded_function;
bool has_nccl() {
  return loaded_function<decltype(&fovea_make_nccl)>("fovea_make_nccl") != nullptr;
}

std::shared_ptr<const DeviceBackend> nccl_backend(int gpu) {
  auto* const make = loaded_function<decltype(&fovea_make_nccl)>("fovea_make_nccl");
  auto* const id_of = loaded_function<decltype(&fovea_gpu_id)>("fovea_gpu_id");
  if (make == nullptr || id_of == nullptr) return nullptr;
  std::array<char, kGpuIdBytes> id{};
  id_of(gpu, id.data());
  return std::make_shared<const DeviceBackend>(DeviceBackend{
      .device = id.data(), .make = [make](const KeyStore& store, const GroupOptions& options) {
        // Longer than our own patience, which knows whom to name.
        const auto timeout = options.timeout + std::chrono::seconds(60);
        return c10::intrusive_ptr<c10d::Backend>::reclaim(
            make(store.under("nccl").handle().get(), static_cast<int>(options.rank),
                 static_cast<int>(options.size), timeout.count()));
      }});
}

std::string why_no_device_groups(const std::vector<std::string>& devices) {
  std::map<std::string, size_t> taken;  // device -> rank
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank].empty()) return fmt::format("rank {} has no GPU with NCCL", rank);
    const auto [first, is_new] = taken.try_emplace(devices[rank], rank);
    if (!is_new) {
      return fmt::format("ranks {} and {} share one GPU ({})", first->second, rank, devices[rank]);
    }
  }
  return {};
}

}  // namespace fovea::parallel
