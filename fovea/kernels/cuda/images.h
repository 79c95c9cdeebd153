// Bytes to normalised images (../images.h) on a GPU. Computed in float32.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"

namespace fovea::kernels::cuda {

struct ImagesShape {
  int64_t batch, channels;  // up to 65535 each
  int64_t height, width;
  ElementType type;  // of the images
};

// A row of ImageMixes::table.
struct ImageMix {
  int64_t is_mirrored, partner, top, left, height, width;
};

// All contiguous on the current device, nothing empty.
struct ImagesInput {
  const uint8_t* bytes;     // [B, C, H, W]
  const float *mean, *std;  // [C]
  const ImageMix* mixes;    // [B], or null: none
  const float* lam;         // [B], null without mixes
};

// images: [B, C, H, W]
void normalize_images(const ImagesInput& input, const ImagesShape& shape, void* images,
                      Stream stream);

}  // namespace fovea::kernels::cuda
