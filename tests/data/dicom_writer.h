// DICOM slices for tests: explicit little endian, 16 bits, unsigned.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace fovea::data::testing {

struct SliceToWrite {
  int64_t rows = 1;
  int64_t columns = 1;
  std::array<double, 3> position = {};           // LPS, of the first pixel
  std::array<double, 6> orientation = {};        // along a row, along a column
  std::array<double, 2> pixel_spacing = {1, 1};  // between rows, between columns
  std::string series_uid = "1.2.3";
  std::vector<uint16_t> pixels = {};  // [rows, columns]
};

// group, element, VR of two letters with a length of 16 bits, value made even with a space.
inline void add_element(std::string& out, uint16_t group, uint16_t element, const char* vr,
                        std::string value) {
  if (value.size() % 2 != 0) value += ' ';
  const auto number = [&](uint16_t word) {
    out += static_cast<char>(word & 0xFF);
    out += static_cast<char>(word >> 8);
  };
  number(group);
  number(element);
  out += vr;
  if (std::string(vr) == "OW") {
    number(0);
    number(static_cast<uint16_t>(value.size() & 0xFFFF));
    number(static_cast<uint16_t>(value.size() >> 16));
  } else {
    number(static_cast<uint16_t>(value.size()));
  }
  out += value;
}

inline std::string word_text(int64_t value) {
  return {static_cast<char>(value & 0xFF), static_cast<char>(value >> 8)};
}

// orientation and position are left out where the first is all zeros.
inline std::string dicom_bytes(const SliceToWrite& slice) {
  const auto& p = slice.position;
  const auto& o = slice.orientation;
  std::string meta;
  add_element(meta, 2, 0x10, "UI", std::string("1.2.840.10008.1.2.1") + '\0');
  std::string out(128, '\0');
  out += "DICM";
  add_element(out, 2, 0, "UL", word_text(static_cast<int64_t>(meta.size())) + word_text(0));
  out += meta;
  add_element(out, 0x20, 0x0E, "UI", slice.series_uid);
  if (o != std::array<double, 6>{}) {
    add_element(out, 0x20, 0x32, "DS", fmt::format("{}\\{}\\{}", p[0], p[1], p[2]));
    add_element(out, 0x20, 0x37, "DS",
                fmt::format("{}\\{}\\{}\\{}\\{}\\{}", o[0], o[1], o[2], o[3], o[4], o[5]));
  }
  add_element(out, 0x28, 2, "US", word_text(1));
  add_element(out, 0x28, 4, "CS", "MONOCHROME2");
  add_element(out, 0x28, 0x10, "US", word_text(slice.rows));
  add_element(out, 0x28, 0x11, "US", word_text(slice.columns));
  add_element(out, 0x28, 0x30, "DS",
              fmt::format("{}\\{}", slice.pixel_spacing[0], slice.pixel_spacing[1]));
  add_element(out, 0x28, 0x100, "US", word_text(16));
  add_element(out, 0x28, 0x101, "US", word_text(16));
  add_element(out, 0x28, 0x102, "US", word_text(15));
  add_element(out, 0x28, 0x103, "US", word_text(0));
  std::string pixels;
  for (const uint16_t pixel : slice.pixels) pixels += word_text(pixel);
  add_element(out, 0x7FE0, 0x10, "OW", pixels);
  return out;
}

}  // namespace fovea::data::testing
