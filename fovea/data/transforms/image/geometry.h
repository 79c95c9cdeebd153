// Every image transform twice: what it does to a size, and what it does to pixels. Pure functions
// of the image and the random stream.
#pragma once

#include <array>
#include <cmath>
#include <optional>

#include "fovea/core/philox.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/configs.h"
#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/first_crop.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/sample_geometry.h"

namespace fovea::data {

// Buffers that a thread keeps from image to image. Results alternate between the two images, so a
// transform never writes what it reads.
struct TransformScratch {
  Image images[2];
  int next = 0;
  ResizeScratch resize;
  FirstCropScratch first_crop;
  Image decoded;
  AugmentScratch augment;
  SampleGeometry geometry;  // of the sample in work: every transform that moves pixels adds to it

  Image& next_image() { return images[next ^= 1]; }
  // Where its time goes is counted; null: nobody asks.
  StageTimer* timer() const { return first_crop.timer; }
  void set_timer(StageTimer* timer) { first_crop.timer = timer; }
};

using CropBox = PixelBox;

// [height, width], or one number for both.
inline ImageSize exact_size(const std::vector<int64_t>& size) {
  return {size.front(), size.back()};
}

// Python's round(): halves go to the even neighbour.
inline int64_t round_half_even(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

// The box of random_resized_crop for an image of this size: ten tries, then the largest centred box
// within `ratio`.
CropBox draw_resized_crop(const RandomResizedCropConfig& config, ImageSize image,
                          RandomStream& random);

// The window of center_crop; nullopt where the image is smaller and is padded first.
std::optional<PixelBox> center_box(const CenterCropConfig& config, ImageSize image);

// Size of an image whose shorter edge becomes `edge`, as torchvision's Resize rounds it.
ImageSize shorter_edge_size(int64_t edge, ImageSize in);

// `in` with exactly this size.
ImageView resize_exactly(const ImageView& in, ImageSize size, Interpolation interpolation,
                         TransformScratch& scratch);

// Size after the transform; nullopt = differs from image to image.
std::optional<ImageSize> output_size(const ResizeConfig& config, std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const CenterCropConfig& config, std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const RandomResizedCropConfig& config,
                                     std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const RandomCropConfig& config, std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const PadConfig& config, std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const HorizontalFlipConfig& config,
                                     std::optional<ImageSize> in);
std::optional<ImageSize> output_size(const VerticalFlipConfig& config, std::optional<ImageSize> in);

// The result looks at `in`'s pixels or at a buffer of `scratch`.
ImageView apply(const ResizeConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const CenterCropConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const RandomResizedCropConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
// Throws DataError where the padded image is smaller than the window.
ImageView apply(const RandomCropConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
// Throws DataError where `reflect` needs more pixels than the image has.
ImageView apply(const PadConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const HorizontalFlipConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const VerticalFlipConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);

}  // namespace fovea::data
