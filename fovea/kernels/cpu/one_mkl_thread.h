// Products that stay in the thread that asks for them.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <cstdint>

#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/loaded_function.h"

namespace fovea::kernels::cpu {

// Sets how many threads MKL uses where the calling thread asks it -> the number before. Exported by
// a libtorch that was built with MKL, else null.
inline const auto set_mkl_threads = loaded_function<int (*)(int)>("MKL_Set_Num_Threads_Local");

// While it lives, MKL works in the calling thread alone. libtorch has told it to use all threads
// even where it is called from one of several, which would split the sums by their number.
class OneMklThread {
 public:
  OneMklThread() : before_(set_mkl_threads ? set_mkl_threads(1) : 0) {}
  ~OneMklThread() {
    if (set_mkl_threads) set_mkl_threads(before_);
  }
  OneMklThread(const OneMklThread&) = delete;
  OneMklThread& operator=(const OneMklThread&) = delete;

 private:
  int before_;
};

// Calls body(i) for each i below `count` in libtorch's threads, for products of one thread each.
template <class Body>
void each_product(int64_t count, const Body& body) {
  share_out_in_libtorch(count, /*most=*/1, [&](int64_t i, int64_t) {
    const c10::InferenceMode no_autograd;  // modes are a thread's own
    const OneMklThread one_thread;
    body(i);
  });
}

// As OneMklThread, for all of ATen's threads, around an operation of libtorch that multiplies in
// several of them. Not within a parallel region.
class OneMklThreadEach {
 public:
  OneMklThreadEach() {
    for_each_thread([] { before_ = set_mkl_threads(1); });
  }
  ~OneMklThreadEach() {
    for_each_thread([] { set_mkl_threads(before_); });
  }
  OneMklThreadEach(const OneMklThreadEach&) = delete;
  OneMklThreadEach& operator=(const OneMklThreadEach&) = delete;

 private:
  template <class Body>
  static void for_each_thread(Body body) {
    if (set_mkl_threads == nullptr) return;
    // One piece for each thread of the team, the calling one among them.
    at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) { body(); });
  }

  static inline thread_local int before_ = 0;
};

}  // namespace fovea::kernels::cpu
