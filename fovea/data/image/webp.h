// WebP through libwebp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "fovea/data/dataset.h"
#include "fovea/data/image/image_header.h"

namespace fovea::data {

bool is_webp(std::span<const uint8_t> bytes);

// As decode_image, messages without the name of the file: lossy and lossless; of an animation its
// first frame on a black canvas, as Pillow gives it. Thread-safe.
void decode_webp(std::span<const uint8_t> bytes, Image& image);

// As image_file_size. A file with EXIF, which may stand behind the pixels, is left to the decoder.
std::optional<ImageSize> webp_file_size(const HeaderFile& file);

}  // namespace fovea::data
