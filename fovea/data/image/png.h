// PNG through libspng.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::data {

bool is_png(std::span<const uint8_t> bytes);

// As decode_image, messages without the name of the file. Thread-safe.
void decode_png(std::span<const uint8_t> bytes, Image& image);

// A PNG file of an image with 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA) channels.
std::vector<uint8_t> encode_png(const Image& image);

}  // namespace fovea::data
