// The pixel data of a DICOM file: as they are, run-length encoded or compressed, gray, coloured or
// by a colour table, in one frame or several.
// Format: DICOM PS3.3 C.7.6.3 (image pixel module), PS3.5, annexes A (fragments) and G (RLE).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/volume/dicom_codec.h"
#include "fovea/data/volume/dicom_elements.h"

namespace fovea::data {

// Red, green and blue of each number; numbers below the first and above the last are as these.
struct DicomPalette {
  std::array<std::vector<uint16_t>, 3> colours;
  int64_t first = 0;
  int64_t bits = 8;  // of each colour, 8 or 16
};

// What the header says of the pixels.
struct DicomPixels {
  std::string syntax;
  DicomPixelForm form;
  int64_t frames = 1;
  std::string photometric;
  bool is_planar = false;  // red, green and blue of each frame lie behind each other
  DicomPalette palette = {};

  bool is_encapsulated() const;
  // As the pixels are handed out: of colour tables their colours.
  DicomPixelForm read_form() const;
};

// Whether pixels of a transfer syntax are read, by this build; PS3.6's name of it, or "unknown".
bool is_read_syntax(const std::string& uid);
std::string_view name_of_syntax(const std::string& uid);

// Throws DataError naming `source`: sizes, bits or colours that are not read, too many pixels.
void check_pixels(const DicomPixels& pixels, const std::string& source);
// Bytes of pixel data that are not compressed.
uint64_t native_bytes(const DicomPixels& pixels);

// Each frame [rows, columns, samples], little endian, colours as RGB; bits above the stored ones
// are cleared. `in` stands behind `element`, which is the pixel data. Throws DataError: too few or
// too many bytes or frames, damaged ones.
std::vector<std::vector<uint8_t>> read_frames(ByteReader& in, const DataElement& element,
                                              const DicomPixels& pixels, const std::string& source);

}  // namespace fovea::data
