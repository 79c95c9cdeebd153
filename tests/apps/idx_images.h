// Images of a made-up data set as IDX files, for tests of whole commands.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/data/support.h"

namespace fovea::testing {

// Gray squares, of each class in turn.
struct IdxImages {
  // value(image, pixel): 0 to 255, asked for in their order.
  template <class Value>
  IdxImages(uint32_t count, uint32_t side_length, uint32_t classes, Value value)
      : side(side_length), num_classes(classes) {
    for (uint32_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<uint8_t>(i % classes));
      for (uint32_t p = 0; p < side * side; ++p) {
        pixels.push_back(static_cast<uint8_t>(value(i, p)));
      }
    }
  }

  std::vector<uint8_t> image_file() const {
    return data::testing::idx_bytes({static_cast<uint32_t>(labels.size()), side, side}, pixels);
  }
  std::vector<uint8_t> label_file() const {
    return data::testing::idx_bytes({static_cast<uint32_t>(labels.size())}, labels);
  }

  // Writes both into `dir`, as PREFIXimages and PREFIXlabels. -> how a recipe reads them
  std::string write(const data::testing::TempDir& dir, const std::string& prefix = "") const {
    return fmt::format(
        "{{format: idx, images: {}, labels: {}, num_classes: {}, transforms: [normalize]}}",
        dir.write(prefix + "images", image_file()), dir.write(prefix + "labels", label_file()),
        num_classes);
  }

  uint32_t side, num_classes;
  std::vector<uint8_t> pixels, labels;  // [count, side, side], [count]
};

// Of four classes that a tiny model can tell apart, each striped in its own way.
struct StripedImages : IdxImages {
  StripedImages(uint32_t count, uint32_t side_length)
      : IdxImages(count, side_length, 4,
                  [](uint32_t i, uint32_t p) { return i * 37 + p * (i % 4 + 1); }) {}
};

}  // namespace fovea::testing
