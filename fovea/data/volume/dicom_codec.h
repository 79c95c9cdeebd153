// One frame of compressed DICOM pixels: JPEG, JPEG-LS and JPEG 2000 through GDCM, in builds that
// found it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::data {

// What the header says of each frame.
struct DicomPixelForm {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t samples = 1;         // 1 or 3
  int64_t bits_allocated = 0;  // 8, 16 or 32
  int64_t bits_stored = 0;
  bool is_signed = false;

  int64_t pixels() const { return rows * columns; }
  int64_t frame_bytes() const { return pixels() * samples * bits_allocated / 8; }
};

// Whether frames of this transfer syntax are decoded by GDCM; and whether this build has it.
bool is_gdcm_syntax(std::string_view uid);
bool has_gdcm();

struct DecodedFrame {
  std::vector<uint8_t> pixels;      // [rows, columns, samples], little endian, components as coded
  std::optional<bool> is_ybr = {};  // whether the stream itself says that colours are YCbCr
};

// The stream's own header must agree with `form` before GDCM sees it. Throws DataError naming
// `source`: damaged, of another size, no GDCM.
DecodedFrame decode_with_gdcm(std::span<const uint8_t> frame, std::string_view syntax,
                              const DicomPixelForm& form, const std::string& source);

}  // namespace fovea::data
