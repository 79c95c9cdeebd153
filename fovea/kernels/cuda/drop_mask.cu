// The kernel of drop_mask.h. Integer arithmetic only, so nothing is accumulated. One thread draws
// one Philox block, four neighbouring elements of one row: blockIdx.y and a stride loop walk over
// rows, blockIdx.x over the blocks of a row.
#include <algorithm>

#include "fovea/kernels/cuda/drop_mask.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMaxGridY = 65535;

__global__ void drop_mask_kernel(const int64_t* stamp, int64_t B, int64_t E, PhiloxKey key,
                                 uint32_t threshold, float scale, float* mask) {
  const int64_t block = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (4 * block >= E) return;
  const auto step = static_cast<uint32_t>(stamp[0]);
  for (int64_t b = blockIdx.y; b < B; b += gridDim.y) {
    const auto row = static_cast<uint64_t>(stamp[1 + b]);
    const PhiloxCounter words =
        philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(row),
                    static_cast<uint32_t>(row >> 32), step},
                   key);
    for (int i = 0; i < 4 && 4 * block + i < E; ++i) {
      mask[b * E + 4 * block + i] = words[i] >= threshold ? scale : 0.0f;
    }
  }
}

}  // namespace

void draw_drop_mask(const int64_t* stamp, const DropMaskShape& shape, const DropMaskDraw& draw,
                    float* mask, Stream stream) {
  const int64_t blocks = (shape.elements + 3) / 4;
  const dim3 grid(static_cast<unsigned>((blocks + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(shape.rows, kMaxGridY)));
  launch(drop_mask_kernel, {.grid = grid, .block = kThreads}, stream, stamp, shape.rows,
         shape.elements, draw.key, draw.threshold, draw.scale, mask);
}

}  // namespace fovea::kernels::cuda
