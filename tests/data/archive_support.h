// Archives that the tests of data/ make up.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fovea/data/archive/tar.h"
#include "fovea/data/archive/tar_writer.h"
#include "tests/data/support.h"

namespace fovea::data::testing {

using NamedBytes = std::vector<std::pair<std::string, std::string>>;

inline std::string tar_of(const NamedBytes& files) {
  std::string tar;
  for (const auto& [name, bytes] : files) {
    tar += tar_header(name, bytes.size()) + bytes + tar_padding(bytes.size());
  }
  return tar + tar_end();
}

inline std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

inline std::string to_text(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// An image file that every decoder takes: one of the golden JPEGs or PNGs.
inline std::string image_file(const std::string& name = "jpeg_420") {
  return to_text(golden("file." + name).bytes);
}

inline MemorySource memory(const std::string& bytes) { return {"x.tar", to_bytes(bytes)}; }

// The image file of a sample as the data set stores it.
inline std::vector<uint8_t> stored_bytes(const Dataset& dataset, int64_t index) {
  Sample sample;
  dataset.read(index, sample);
  const auto& bytes = sample.as<EncodedImage>().bytes;
  return {bytes.begin(), bytes.end()};
}

// Writes the checksum of a tar header that a test has changed.
inline void sign_tar_header(std::string& tar, size_t header = 0) {
  for (size_t i = 148; i < 156; ++i) tar[header + i] = ' ';
  unsigned sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += static_cast<uint8_t>(tar[header + i]);
  const auto digits = fmt::format("{:06o}", sum);
  std::copy(digits.begin(), digits.end(), tar.begin() + static_cast<ptrdiff_t>(header) + 148);
  tar[header + 154] = '\0';
}

}  // namespace fovea::data::testing
