// The kernel of images.h. A thread makes W pixels side by side; blockIdx.y is a channel, blockIdx.z
// a sample.
#include <algorithm>

#include "fovea/kernels/cuda/images.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocksOfPlane = 1024;  // more pixels go to the same threads again

// Pixel (y, x) of channel c of a sample, as it is after mirroring.
__device__ __forceinline__ float normalized(const ImagesInput& in, const ImagesShape& shape,
                                            int64_t sample, int64_t c, int64_t y, int64_t x) {
  const bool is_mirrored = in.mixes && in.mixes[sample].is_mirrored;
  const int64_t plane = (sample * shape.channels + c) * shape.height;
  const uint8_t byte =
      in.bytes[(plane + y) * shape.width + (is_mirrored ? shape.width - 1 - x : x)];
  return (static_cast<float>(byte) / 255.0f - in.mean[c]) / in.std[c];
}

__device__ __forceinline__ float mixed(const ImagesInput& in, const ImagesShape& shape,
                                       int64_t sample, int64_t c, int64_t y, int64_t x) {
  const float own = normalized(in, shape, sample, c, y, x);
  if (!in.mixes) return own;
  const ImageMix& mix = in.mixes[sample];
  const bool has_box = mix.height * mix.width > 0;
  const bool is_in_box =
      y >= mix.top && y < mix.top + mix.height && x >= mix.left && x < mix.left + mix.width;
  const float lam = in.lam[sample];
  if (has_box ? !is_in_box : lam == 1.0f) return own;
  const float other = normalized(in, shape, mix.partner, c, y, x);
  return has_box ? other : own * lam + other * (1.0f - lam);
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads)
    images_kernel(ImagesInput input, ImagesShape shape, T* images) {
  const int64_t sample = blockIdx.z, c = blockIdx.y;
  const int64_t pixels = shape.height * shape.width;
  T* plane = images + (sample * shape.channels + c) * pixels;
  const int64_t stride = int64_t{gridDim.x} * kThreads * W;
  for (int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * W; at < pixels; at += stride) {
    const auto y = static_cast<uint32_t>(at) / static_cast<uint32_t>(shape.width);
    const int64_t x = at - y * shape.width;
    float values[W];
#pragma unroll
    for (int j = 0; j < W; ++j) values[j] = mixed(input, shape, sample, c, y, x + j);
    store<W>(values, plane + at);
  }
}

}  // namespace

void normalize_images(const ImagesInput& input, const ImagesShape& shape, void* images,
                      Stream stream) {
  with_element_type(shape.type, [&](auto element) {
    using T = decltype(element);
    const bool is_wide = shape.width % kVector<T> == 0 && are_aligned(images);
    const int64_t pixels = int64_t{kThreads} * (is_wide ? kVector<T> : 1);
    const int64_t blocks = (shape.height * shape.width + pixels - 1) / pixels;
    const dim3 grid(static_cast<unsigned>(std::min(blocks, kMaxBlocksOfPlane)),
                    static_cast<unsigned>(shape.channels), static_cast<unsigned>(shape.batch));
    launch(is_wide ? images_kernel<T, kVector<T>> : images_kernel<T, 1>,
           {.grid = grid, .block = kThreads}, stream, input, shape, static_cast<T*>(images));
  });
}

}  // namespace fovea::kernels::cuda
