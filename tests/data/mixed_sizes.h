// PNGs of mixed sizes and aspect ratios, of two classes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "fovea/core/philox.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/image/png.h"
#include "tests/data/support.h"

namespace fovea::data::testing {

// Writes `count` gray images of 5 to 28 pixels a side into the class folders "left" and "top" below
// `name`: that half is bright, over noise that the seed draws.
inline FolderConfig write_mixed_sizes(const TempDir& folder, const std::string& name, int64_t count,
                                      uint64_t seed) {
  RandomStream random(philox_key(seed, name), 0);
  for (int64_t i = 0; i < count; ++i) {
    const bool is_left = i % 2 == 0;
    Image image{5 + random.below(24), 5 + random.below(24), 1, {}};
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t x = 0; x < image.width; ++x) {
        const bool is_bright = is_left ? 2 * x < image.width : 2 * y < image.height;
        image.pixels.push_back(static_cast<uint8_t>(random.below(40) + (is_bright ? 180 : 0)));
      }
    }
    folder.write(fmt::format("{}/{}/{}.png", name, is_left ? "left" : "top", i), encode_png(image));
  }
  FolderConfig config;
  config.path = folder.file(name);
  return config;
}

}  // namespace fovea::data::testing
