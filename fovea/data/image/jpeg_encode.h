// JPEG files, written through libjpeg-turbo.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/image/image_view.h"

namespace fovea::data {

// A baseline JPEG of an image with 1 or 3 channels, with 4:2:0 chroma, as Pillow writes it. quality
// is libjpeg's, 1 to 100. Throws Error where the image has other channels or is too large for JPEG
// (65,500 pixels a side).
void encode_jpeg(const ImageView& image, int quality, std::vector<uint8_t>& bytes);

}  // namespace fovea::data
