// Pictures of images that are too large for memory.
#pragma once

#include <cstdint>

#include "fovea/data/large_image/region_source.h"

namespace fovea::data {

// `size` with a longest side of at most `side`, in proportion; no side below 1.
ImageSize shrunk_size(ImageSize size, int64_t side);

// The first and one past the last of `from` places that place `at` of `to` stands for; to <= from.
struct ShrunkPart {
  int64_t first = 0;
  int64_t end = 0;
};
ShrunkPart shrunk_part(int64_t at, int64_t to, int64_t from);

// The image shrunk to `size` by averaging: RGB of 3 channels, of any other number the first in
// gray. Images that are not bytes are drawn from black to white over the range of the averages.
// Walks down the image once. Throws DataError where it cannot be read.
Image shrunk_image(const RegionSource& image, ImageSize size,
                   int64_t band_bytes = int64_t{64} << 20);

}  // namespace fovea::data
