// Threads of the CPU kernels that belong to one thread of the host.
#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

#include "fovea/kernels/cpu/one_mkl_thread.h"

namespace fovea::kernels::cpu {

// Kernels that the calling thread asks for run in so many threads from now on, itself among them;
// those of other threads as before. at::set_num_threads would be for threads to come as well.
inline void use_own_threads(int count) {
  // The first time that a thread asks, its number becomes everybody's; libtorch's library and this
  // program have a flag each for that.
  at::get_num_threads();
  at::internal::lazy_init_num_threads();
  omp_set_num_threads(count);
  if (set_mkl_threads) set_mkl_threads(count);
}

// The same while it lives; then as before, MKL's own number too, which may be that of all threads.
class OwnThreadsScope {
 public:
  explicit OwnThreadsScope(int count)
      : before_(at::get_num_threads()), mkl_before_(set_mkl_threads ? set_mkl_threads(count) : 0) {
    use_own_threads(count);
  }
  ~OwnThreadsScope() {
    omp_set_num_threads(before_);
    if (set_mkl_threads) set_mkl_threads(mkl_before_);
  }
  OwnThreadsScope(const OwnThreadsScope&) = delete;
  OwnThreadsScope& operator=(const OwnThreadsScope&) = delete;

 private:
  int before_, mkl_before_;
};

}  // namespace fovea::kernels::cpu
