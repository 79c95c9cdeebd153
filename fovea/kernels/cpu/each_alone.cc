#include "fovea/kernels/cpu/each_alone.h"

#include <ATen/ThreadLocalState.h>

#include "fovea/kernels/cpu/own_threads.h"
#include "fovea/kernels/cpu/share_out.h"

namespace fovea::kernels::cpu {

void each_alone(int64_t count, c10::function_ref<void(int64_t)> body) {
  const at::ThreadLocalState modes;
  share_out(count, /*most=*/1, [&](int64_t begin, int64_t end) {
    const at::ThreadLocalStateGuard given(modes);
    const OwnThreadsScope alone(1);
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace fovea::kernels::cpu
