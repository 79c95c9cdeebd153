// fovea::drop_mask on CUDA: the words of Note [Drop masks] (../drop.h), bit for bit as the CPU
// draws them.
//
// rows: [B] int64, contiguous, on the device -> mask [B, E] float32, contiguous. Integer arithmetic
// only, so nothing is accumulated. One thread draws one Philox block, four neighbouring elements of
// one row: blockIdx.y and a stride loop walk over rows, blockIdx.x over the blocks of a row.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>

#include "fovea/core/philox.h"
#include "fovea/kernels/cpu/drop_words.h"

namespace fovea::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMaxGridY = 65535;

__global__ void drop_mask_kernel(const int64_t* rows, int64_t B, int64_t E, PhiloxKey key,
                                 uint32_t step, uint32_t threshold, float scale, float* mask) {
  const int64_t block = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (4 * block >= E) return;
  for (int64_t b = blockIdx.y; b < B; b += gridDim.y) {
    const auto row = static_cast<uint64_t>(rows[b]);
    const PhiloxCounter words =
        philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(row),
                    static_cast<uint32_t>(row >> 32), step},
                   key);
    for (int i = 0; i < 4 && 4 * block + i < E; ++i) {
      mask[b * E + 4 * block + i] = words[i] >= threshold ? scale : 0.0f;
    }
  }
}

at::Tensor drop_mask(const at::Tensor& rows, int64_t packed_key, int64_t step, int64_t elements,
                     double rate) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const int64_t B = rows.size(0);
  const auto mask = at::empty({B, elements}, rows.options().dtype(at::kFloat));
  if (mask.numel() == 0) return mask;
  const PhiloxKey key = {static_cast<uint32_t>(packed_key),
                         static_cast<uint32_t>(static_cast<uint64_t>(packed_key) >> 32)};
  const int64_t blocks = (elements + 3) / 4;
  const dim3 grid(static_cast<unsigned>((blocks + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(B, kMaxGridY)));
  drop_mask_kernel<<<grid, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      rows.const_data_ptr<int64_t>(), B, elements, key, static_cast<uint32_t>(step),
      cpu::drop_threshold(rate), static_cast<float>(1.0 / (1.0 - rate)),
      mask.mutable_data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return mask;
}

}  // namespace

TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("drop_mask", drop_mask); }

}  // namespace fovea::kernels::cuda
