#include "tests/cuda_kernels/fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace fovea::simt {
namespace {

constexpr size_t kStackSize = 256 << 10;

Fiber* entered = nullptr;  // makecontext passes no pointers

// Both tell AddressSanitizer that the stack changes: before the switch, and after it.
void leave_stack([[maybe_unused]] void** keep, [[maybe_unused]] const void* to,
                 [[maybe_unused]] size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(keep, to, size);
#endif
}
void arrive_on_stack([[maybe_unused]] void* kept, [[maybe_unused]] const void** from,
                     [[maybe_unused]] size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(kept, from, size);
#endif
}

}  // namespace

void Fiber::start(const std::function<void()>& body) {
  if (!stack_) stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackSize);
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_.get(), kStackSize);  // after a body that was given up
#endif
  body_ = &body;
  has_returned_ = false;
  own_shadow_ = nullptr;
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = kStackSize;
  own_.uc_link = nullptr;
  makecontext(&own_, &Fiber::enter, 0);
}

bool Fiber::resume() {
  entered = this;
  leave_stack(&caller_shadow_, stack_.get(), kStackSize);
  swapcontext(&caller_, &own_);
  arrive_on_stack(caller_shadow_, nullptr, nullptr);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return has_returned_;
}

void Fiber::stop() { switch_back(/*forever=*/false); }

void Fiber::switch_back(bool forever) {
  leave_stack(forever ? nullptr : &own_shadow_, caller_stack_, caller_size_);
  swapcontext(&own_, &caller_);
  arrive_on_stack(own_shadow_, &caller_stack_, &caller_size_);
}

// The first function on the stack.
void Fiber::enter() {
  Fiber& self = *entered;
  arrive_on_stack(nullptr, &self.caller_stack_, &self.caller_size_);
  try {
    (*self.body_)();
  } catch (...) {
    self.error_ = std::current_exception();
  }
  self.has_returned_ = true;
  self.switch_back(/*forever=*/true);
}

}  // namespace fovea::simt
