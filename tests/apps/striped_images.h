// Images that a tiny model can tell apart, for tests of whole commands.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/data/support.h"

namespace fovea::testing {

// Gray squares of four classes in turn, each striped in its own way.
struct StripedImages {
  explicit StripedImages(uint32_t count, uint32_t side_length) : side(side_length) {
    for (uint32_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<uint8_t>(i % 4));
      for (uint32_t p = 0; p < side * side; ++p) {
        pixels.push_back(static_cast<uint8_t>(i * 37 + p * (i % 4 + 1)));
      }
    }
  }

  std::vector<uint8_t> image_file() const {
    return data::testing::idx_bytes({static_cast<uint32_t>(labels.size()), side, side}, pixels);
  }
  std::vector<uint8_t> label_file() const {
    return data::testing::idx_bytes({static_cast<uint32_t>(labels.size())}, labels);
  }

  // Writes both into `dir`. -> how a recipe reads them
  std::string write(const data::testing::TempDir& dir) const {
    dir.write("images", image_file());
    dir.write("labels", label_file());
    return fmt::format(
        "{{format: idx, images: {0}/images, labels: {0}/labels, num_classes: 4, transforms: "
        "[normalize]}}",
        dir.path());
  }

  uint32_t side;
  std::vector<uint8_t> pixels, labels;  // [count, side, side], [count]
};

}  // namespace fovea::testing
