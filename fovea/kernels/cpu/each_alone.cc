#include "fovea/kernels/cpu/each_alone.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include "fovea/kernels/cpu/own_threads.h"
#include "fovea/kernels/cpu/share_out.h"

namespace fovea::kernels::cpu {
namespace {

// While it lives, kernels that this thread asks for run in it alone.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { use_own_threads(1); }
  ~OneThread() { use_own_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace

void each_alone(int64_t count, c10::function_ref<void(int64_t)> body) {
  const at::ThreadLocalState modes;
  share_out(count, /*most=*/1, [&](int64_t begin, int64_t end) {
    const at::ThreadLocalStateGuard given(modes);
    const OneThread alone;
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace fovea::kernels::cpu
