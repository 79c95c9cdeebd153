// Image files to pixels, of the formats that image_formats.cc lists, told apart by their first
// bytes, never by their name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::data {

// Images with more pixels are refused from their header, before anything is allocated: they are
// attacks or mistakes.
inline constexpr int64_t kMaxImagePixels = 178'956'970;  // a quarter of 2 GiB at 3 bytes a pixel
// Throws DataError where a header announces more. advice: what to do.
void check_announced_pixels(int64_t width, int64_t height,
                            std::string_view advice = "make the image smaller");
inline constexpr int64_t kMaxImageFileBytes = int64_t{1} << 30;

// Decodes to 1 channel (gray files) or 3 (colour, palette, CMYK). 16-bit samples keep their high
// byte, transparency is dropped, the EXIF orientation is applied. `name` is what error messages
// call the file. `image` keeps its buffer. Throws DataError: not an image, truncated, damaged, too
// large.
void decode_image(std::span<const uint8_t> bytes, const std::string& name, Image& image);

// The same, messages without a name.
void decode_image(std::span<const uint8_t> bytes, Image& image);

// The whole file into `bytes`, which keeps its memory. Throws DataError naming the path: cannot be
// read, empty, too large.
void read_image_file(const std::string& path, std::vector<uint8_t>& bytes);

// Reads and decodes a file into `image`, through a buffer that each thread keeps. `name` as above.
void load_image(const std::string& path, const std::string& name, Image& image);
Image load_image(const std::string& path);

}  // namespace fovea::data
