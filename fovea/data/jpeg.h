// JPEG through libjpeg-turbo.
#pragma once

#include <cstdint>
#include <span>

#include "fovea/data/dataset.h"

namespace fovea::data {

bool is_jpeg(std::span<const uint8_t> bytes);

// As decode_image, messages without the name of the file. Thread-safe; each thread keeps its
// decoder.
void decode_jpeg(std::span<const uint8_t> bytes, Image& image);

}  // namespace fovea::data
