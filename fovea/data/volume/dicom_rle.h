// DICOM's run-length encoding of one frame. Format: DICOM PS3.5, annex G.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/volume/dicom_codec.h"

namespace fovea::data {

// [rows, columns, samples], little endian. Throws DataError naming `source`: damaged, or of another
// number of samples or bytes.
std::vector<uint8_t> decode_dicom_rle(std::span<const uint8_t> frame, const DicomPixelForm& form,
                                      const std::string& source);

}  // namespace fovea::data
