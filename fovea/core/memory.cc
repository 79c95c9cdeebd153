#include "fovea/core/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "fovea/core/free_memory.h"

namespace fovea {

int64_t peak_memory_bytes() {
  return 1024 * detail::number_behind("/proc/self/status", "VmHWM:").value_or(0);
}

int64_t usable_memory_bytes() {
  const int64_t installed =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t limit = 0;
  return file >> limit && limit > 0 ? std::min(limit, installed) : installed;
}

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace fovea
