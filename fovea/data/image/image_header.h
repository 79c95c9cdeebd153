// The size of an image file from its first bytes, without decoding it.
#pragma once

#include <optional>
#include <string>

#include "fovea/data/image/image_view.h"

namespace fovea::data {

// Height and width after the EXIF orientation, as load_image would give them, from the headers of a
// JPEG or PNG file alone: a few reads. Empty where they do not tell it: a file that cannot be read,
// damaged headers, another format; decoding then says what is wrong.
std::optional<ImageSize> image_file_size(const std::string& path);

}  // namespace fovea::data
