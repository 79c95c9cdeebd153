// Fovea's operators on CUDA: what the dispatcher calls, around the kernels of the .cu files.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "fovea/kernels/cpu/drop_words.h"
#include "fovea/kernels/cuda/drop_mask.h"

namespace fovea::kernels::cuda {
namespace {

// rows: [B] int64, contiguous, on the device -> mask [B, E] float32, contiguous.
at::Tensor drop_mask(const at::Tensor& rows, int64_t packed_key, int64_t step, int64_t elements,
                     double rate) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const int64_t B = rows.size(0);
  const auto mask = at::empty({B, elements}, rows.options().dtype(at::kFloat));
  if (mask.numel() == 0) return mask;
  draw_drop_mask(rows.const_data_ptr<int64_t>(), {.rows = B, .elements = elements},
                 {.key = {static_cast<uint32_t>(packed_key),
                          static_cast<uint32_t>(static_cast<uint64_t>(packed_key) >> 32)},
                  .step = static_cast<uint32_t>(step),
                  .threshold = cpu::drop_threshold(rate),
                  .scale = static_cast<float>(1.0 / (1.0 - rate))},
                 mask.mutable_data_ptr<float>(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return mask;
}

}  // namespace

TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("drop_mask", drop_mask); }

}  // namespace fovea::kernels::cuda
