// DICOM's RLE Lossless: PackBits, one segment for each byte of a value, the highest first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fovea::data {

// One frame of `pixels` values of `bytes_per_pixel` bytes, little endian. Throws DataError naming
// `source`: another number of segments, segments outside the frame, too few bytes.
std::vector<uint8_t> decode_dicom_rle(std::span<const uint8_t> frame, int64_t pixels,
                                      int64_t bytes_per_pixel, const std::string& source);

}  // namespace fovea::data
