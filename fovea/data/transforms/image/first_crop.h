// The transforms at the front of a list in one pass over the rows: crop, resize, flip, and, for a
// JPEG that is not decoded yet, decoding of nothing but what they need.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/image/jpeg.h"
#include "fovea/data/stage_timer.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/data/transforms/image/resample.h"

namespace fovea::data {

// What a thread keeps from file to file.
struct FirstCropScratch {
  JpegReader reader;
  Resampler resampler;
  Image region;  // of a turned image
  Image turned;
  std::vector<uint8_t> copies;
  StageTimer* timer = nullptr;  // null: nobody asks where the time goes
};

// A box of an image, in pixels after the orientation, its size after the resize, and the window of
// that which is wanted.
struct FirstCrop {
  PixelBox box;
  ImageSize resized;
  PixelBox window;  // within `resized`
  Interpolation interpolation = Interpolation::kBilinear;
  bool is_mirrored = false;
  bool may_scale = false;  // whether the decoder may shrink by 2, 4 or 8, for speed
  // What may be done in the same pass by a transform behind: a window of the result, then a flip.
  enum class Takes { kWindow, kFlip, kNothing };
  Takes takes = Takes::kFlip;
};

// The crop that the transforms at the front of the list make of an image of this size: one that can
// begin (random_resized_crop, resize), and those that join. `used`: how many transforms that is.
// Draws from `random` what they draw. nullopt, and nothing drawn: the list begins otherwise.
std::optional<FirstCrop> plan_first_crop(const std::vector<TransformConfig>& transforms,
                                         ImageSize image, RandomStream& random, size_t& used);

// 1, 2, 4 or 8: the most that the decoder may shrink by with the box still at least as large as the
// result.
int scaled_decode_denominator(const FirstCrop& crop);

// Decodes the crop of the file that scratch.reader has open, with `channels` 1 or 3 channels, and
// hands the rows of the window to the sink. The same bytes as decoding all, cropping and resizing,
// where nothing is scaled. Throws DataError: damaged, truncated.
void crop_jpeg(const FirstCrop& crop, int64_t channels, FirstCropScratch& scratch, RowSink& sink);

// The same of an image that is decoded.
void crop_image(const FirstCrop& crop, const ImageView& image, FirstCropScratch& scratch,
                RowSink& sink);

}  // namespace fovea::data
