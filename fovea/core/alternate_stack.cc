#include "fovea/core/alternate_stack.h"

#include <sys/auxv.h>

#include <csignal>
#include <cstddef>
#include <memory>

namespace fovea {
namespace {

constexpr size_t kForTheHandler = 32 * 1024;

// The signal's frame holds the vector registers, whose size is the processor's.
size_t frame_bytes() {
  const size_t told = getauxval(AT_MINSIGSTKSZ);
  return told > 0 ? told : 16 * 1024;
}

class AlternateStack {
 public:
  AlternateStack() {
    stack_t current{};
    if (sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) return;
    const size_t size = frame_bytes() + kForTheHandler;
    memory_ = std::make_unique<std::byte[]>(size);
    const stack_t own{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = size};
    if (sigaltstack(&own, nullptr) != 0) memory_.reset();
  }
  ~AlternateStack() {
    stack_t current{};
    if (!memory_ || sigaltstack(nullptr, &current) != 0 || current.ss_sp != memory_.get()) return;
    current = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&current, nullptr);
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;  // null: the thread had a stack before
};

}  // namespace

void ensure_alternate_stack() { static thread_local const AlternateStack stack; }

}  // namespace fovea
