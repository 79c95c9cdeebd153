// BMP of Windows and of OS/2 1.x: 1, 4, 8, 16, 24 and 32 bits a pixel, as they are or run-length
// encoded. The format is small and its libraries are parts of larger ones, so it is read here.
// Format: learn.microsoft.com, "Bitmap Storage" and "Bitmap Compression".
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "fovea/data/dataset.h"
#include "fovea/data/image/image_header.h"

namespace fovea::data {

bool is_bmp(std::span<const uint8_t> bytes);

// As decode_image, messages without the name of the file. A palette of grays makes one channel.
// Runs may leave pixels out, which have the first colour then. Thread-safe.
void decode_bmp(std::span<const uint8_t> bytes, Image& image);

std::optional<ImageSize> bmp_file_size(const HeaderFile& file);

}  // namespace fovea::data
