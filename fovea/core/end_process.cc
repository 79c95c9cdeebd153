#include "fovea/core/end_process.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace fovea {

void end_process(int code) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::exit(code);  // where they tell of leaks
#else
  // Where there are GPUs, their profilers write at the end.
  for (const char* name : {"libtorch_cuda.so", "libtorch_hip.so"}) {
    if (dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr) std::exit(code);
  }
  std::fflush(nullptr);
  _exit(code);
#endif
}

}  // namespace fovea
