// From a batch of bytes to the images that a model sees, in one pass on the device.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// What becomes of each sample; on the device of the bytes.
struct ImageMixes {
  // One row a sample: 1 if it is mirrored left to right, else 0; the sample of the batch that it is
  // mixed with, after that one's own mirroring; top, left, height and width of the box of pixels
  // that are the partner's (cutmix). Without a box the whole image is mixed (mixup). [B, 6] int64.
  // Partners and boxes lie within the batch and the image: on a GPU nothing checks that.
  at::Tensor table;
  at::Tensor lam;  // [B] float32: mixup gives lam * own + (1 - lam) * partner; 1: not mixed
};
inline constexpr int64_t kImageMixColumns = 6;

// (bytes / 255 - mean) / std, mirrored and mixed. bytes: [B, C, H, W] uint8; mean, std: [C] float32
// on its device; mixes: undefined tensors for none; dtype: float32, bfloat16 or float16, to which
// float32 values are rounded. -> [B, C, H, W]. Throws Error for anything else.
at::Tensor normalize_images(const at::Tensor& bytes, const at::Tensor& mean, const at::Tensor& std,
                            const ImageMixes& mixes, at::ScalarType dtype);

}  // namespace fovea::kernels
