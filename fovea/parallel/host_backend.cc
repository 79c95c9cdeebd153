#include "fovea/parallel/host_backend.h"

#include <utility>

#include "fovea/core/log.h"
#include "fovea/parallel/process_group.h"
#include "fovea/parallel/shared_memory/start.h"

namespace fovea::parallel {

std::unique_ptr<HostBackend> make_host_backend(const KeyStore& store, const GroupOptions& options) {
  std::string why_not;
  auto shared = share_memory(store.under("memory"), options, why_not);
  if (options.is_world && options.rank == 0) {
    log_info(fmt::format("{} ranks exchange tensors in host memory {}", options.size,
                         shared ? "through shared memory" : "by Gloo: " + why_not));
  }
  return shared ? std::move(shared) : make_gloo_backend(store, options);
}

}  // namespace fovea::parallel
