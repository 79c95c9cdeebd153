#include "fovea/core/bus_errors.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <vector>

#include "fovea/core/error.h"

namespace fovea {

// Fields are atomic since the handler reads them without a lock.
struct WatchedMapping {
  static constexpr uint32_t kMaxLost = 64;
  std::atomic<uintptr_t> first = 0;
  std::atomic<uint64_t> bytes = 0;  // 0: free for the next mapping
  std::atomic<uint32_t> num_lost = 0;
  std::array<std::atomic<uint64_t>, kMaxLost> lost = {};  // offsets of pages
  WatchedMapping* next = nullptr;                         // never changes once it is in the list
};

namespace {

std::atomic<WatchedMapping*> all_mappings = nullptr;
std::mutex mappings_lock;  // of those that add and take away; the handler takes none
thread_local std::atomic<uint64_t> lost_here = 0;
struct sigaction previous_action {};
uint64_t page_bytes = 4096;

// Zeros in place of the page at `address`. False: it is of no mapping of ours.
bool replace_page(uintptr_t address) {
  for (auto* mapping = all_mappings.load(); mapping != nullptr; mapping = mapping->next) {
    const uint64_t bytes = mapping->bytes.load();
    const uintptr_t first = mapping->first.load();
    if (address < first || address - first >= bytes) continue;
    const uintptr_t page = address / page_bytes * page_bytes;
    // Noted before the zeros can be seen by others.
    const uint32_t number = mapping->num_lost.fetch_add(1);
    if (number < WatchedMapping::kMaxLost) mapping->lost[number].store(page - first);
    ++lost_here;
    // The system call itself: libc's function may be replaced by a tool that takes locks.
    const auto result = syscall(SYS_mmap, page, page_bytes, PROT_READ,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return result != -1;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool is_page =
      info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR || info->si_code == BUS_MCEERR_AR;
  const bool is_ours = is_page && replace_page(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = saved;
  if (is_ours) return;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    std::signal(signal, SIG_DFL);  // the same access then ends the process
  }
}

void install_handler() {
  page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  FOVEA_CHECK(sigaction(SIGBUS, &action, &previous_action) == 0, "cannot handle SIGBUS");
}

WatchedMapping* free_mapping() {
  for (auto* mapping = all_mappings.load(); mapping != nullptr; mapping = mapping->next) {
    if (mapping->bytes.load() == 0) return mapping;
  }
  auto* made = new WatchedMapping;  // kept for good
  made->next = all_mappings.load();
  all_mappings.store(made);
  return made;
}

}  // namespace

WatchedMapping* watch_mapping(const uint8_t* first, uint64_t bytes) {
  static std::once_flag is_installed;
  std::call_once(is_installed, install_handler);
  const std::lock_guard lock(mappings_lock);
  WatchedMapping* mapping = free_mapping();
  mapping->num_lost.store(0);
  mapping->first.store(reinterpret_cast<uintptr_t>(first));
  mapping->bytes.store(bytes);
  return mapping;
}

void unwatch_mapping(WatchedMapping* mapping) {
  const std::lock_guard lock(mappings_lock);
  mapping->bytes.store(0);
}

bool has_lost_pages(const WatchedMapping& mapping, uint64_t offset, uint64_t bytes) {
  const uint32_t count = mapping.num_lost.load();
  if (count == 0) return false;
  if (count > WatchedMapping::kMaxLost) return true;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t page = mapping.lost[i].load();
    if (page < offset + bytes && offset < page + page_bytes) return true;
  }
  return false;
}

uint64_t lost_pages_of_thread() { return lost_here.load(std::memory_order_relaxed); }

}  // namespace fovea
