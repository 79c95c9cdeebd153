// TIFF files as images: through libtiff, the first page of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "fovea/data/dataset.h"
#include "fovea/data/image/image_header.h"

namespace fovea::data {

// As decode_image, messages without the name of the file. Gray (of 1, 2, 4, 8 or 16 bits),
// palettes, RGB, CMYK, YCbCr; strips and tiles, planes too; every compression that libtiff was
// built with. Alpha is dropped, after colours that were multiplied by it have been divided. Of
// several pages the first is read, as Pillow does, and it is said once where another is no smaller
// copy of it. Throws DataError also for numbers that are no pixels: signed, floating point, of 32
// bits, more channels. Thread-safe.
void decode_tiff(std::span<const uint8_t> bytes, Image& image);

// Of the first page.
std::optional<ImageSize> tiff_file_size(const HeaderFile& file);

}  // namespace fovea::data
