// Products that stay in the thread that asks for them.
#pragma once

#include <dlfcn.h>

namespace fovea::kernels::cpu {

// While it lives, MKL works in the calling thread alone. libtorch has told it to use all threads
// even where it is called from one of several, which would split the sums by their number.
class OneMklThread {
 public:
  OneMklThread() : before_(set_ ? set_(1) : 0) {}
  ~OneMklThread() {
    if (set_) set_(before_);
  }
  OneMklThread(const OneMklThread&) = delete;
  OneMklThread& operator=(const OneMklThread&) = delete;

 private:
  // Exported by a libtorch that was built with MKL.
  static inline const auto set_ =
      reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"));
  int before_;
};

}  // namespace fovea::kernels::cpu
