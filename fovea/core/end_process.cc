#include "fovea/core/end_process.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace fovea {

void end_process(int code) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::exit(code);  // where they tell of leaks
#else
  // Where there are GPUs, their profilers write at the end.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD) != nullptr) std::exit(code);
  std::fflush(nullptr);
  _exit(code);
#endif
}

}  // namespace fovea
