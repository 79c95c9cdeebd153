// The formats of image files, one line each in image_formats.cc: whatever asks for a format, its
// names or its endings asks here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/image/image_header.h"

namespace fovea::data {

// Bytes of a file that `is_of` looks at; a file may have fewer.
inline constexpr size_t kImageStartBytes = 16;

struct ImageFormat {
  std::string_view name;                    // "JPEG"
  std::array<std::string_view, 2> endings;  // without their dots, in lower case; "": none
  // By the first bytes, never by the name.
  bool (*is_of)(std::span<const uint8_t> bytes);
  // As decode_image, messages without the name of the file. Called from many threads at once.
  void (*decode)(std::span<const uint8_t> bytes, Image& image);
  // As image_file_size, of a file that is_of says yes to.
  std::optional<ImageSize> (*size)(const HeaderFile& file);
};

// Null: the file is of none of them.
const ImageFormat* find_image_format(std::span<const uint8_t> bytes);

// Whether the ending, in any case, is that of an image.
bool is_image_name(std::string_view name);

// {"jpg", "jpeg", "png"}
std::vector<std::string> image_endings();

// For messages: "JPEG or PNG", and ".jpg, .jpeg, .png".
std::string image_kinds();
std::string image_endings_text();

}  // namespace fovea::data
