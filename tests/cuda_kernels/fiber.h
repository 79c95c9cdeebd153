// A function that stops in the middle and goes on later: a thread of the emulated GPU.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

namespace fovea::simt {

class Fiber {
 public:
  // The next resume() calls body() from its beginning. What an earlier one has not done yet is
  // given up. `body` must outlive the calls.
  void start(const std::function<void()>& body);

  // Goes on until body() calls stop(), or has returned: true then. Throws what body() threw.
  bool resume();

  // Within body(): back to resume(), until the next one.
  void stop();

 private:
  static void enter();
  void switch_back(bool forever);

  std::unique_ptr<std::byte[]> stack_;
  ucontext_t own_{}, caller_{};
  const std::function<void()>* body_ = nullptr;
  std::exception_ptr error_;
  bool has_returned_ = false;
  // AddressSanitizer's: what it keeps of the stack that is left, and where the caller's is.
  void *own_shadow_ = nullptr, *caller_shadow_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_size_ = 0;
};

}  // namespace fovea::simt
