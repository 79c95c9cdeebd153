// Windows into an image, inside of it or with a border around it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/transform_scratch.h"

namespace fovea::data {

// What pixels outside of an image hold.
enum class PadMode { kConstant, kEdge, kReflect };

// "constant", "edge" or "reflect"; throws ConfigError otherwise.
PadMode pad_mode_from_name(std::string_view name);

// One value for all channels, or one for each of three.
FillColor fill_color(const std::vector<int64_t>& fill);

// The rectangle [top, top + size.height) x [left, left + size.width), which lies inside.
ImageView crop(const ImageView& in, int64_t top, int64_t left, ImageSize size,
               TransformScratch& scratch);

// The rectangle [top, top + size.height) x [left, left + size.width), which may reach outside.
// Reflection leaves the edge pixel single and goes back and forth where it must.
ImageView crop_or_pad(const ImageView& in, int64_t top, int64_t left, ImageSize size, PadMode mode,
                      const FillColor& fill, TransformScratch& scratch);

// The middle of an image; it starts below 0 where the image is smaller.
PixelBox centre_box(ImageSize image, ImageSize size);
// The middle of the image, or all of it with a border.
ImageView centre(const ImageView& in, ImageSize size, PadMode mode, const FillColor& fill,
                 TransformScratch& scratch);

// A window at a random place, or all of the image at a random place in a border.
ImageView random_crop_or_pad(const ImageView& in, ImageSize size, PadMode mode,
                             const FillColor& fill, RandomStream& random,
                             TransformScratch& scratch);

}  // namespace fovea::data
